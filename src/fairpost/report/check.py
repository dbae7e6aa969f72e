"""The page of `check`."""


def check_page(*a, **k):
    return ""
