"""Schedulers: which trials continue after a result, and which waiting trial runs next."""
