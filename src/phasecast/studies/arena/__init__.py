"""How often are we wrong when we say ok? Random problems whose answer is known by another route, family by family."""
