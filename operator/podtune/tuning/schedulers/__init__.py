"""Schedulers: which trials go on after a result, and which waiting one runs next."""
