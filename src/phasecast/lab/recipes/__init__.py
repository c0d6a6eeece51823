"""The recipes we ship, one module each, with a ``RECIPE``; listed in :mod:`phasecast.lab.recipe`."""
