"""A helper of learned.py."""


def start(head_dim, temperature):
    return head_dim ** -0.5 / temperature
