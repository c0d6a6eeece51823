"""When does it generalise?"""
