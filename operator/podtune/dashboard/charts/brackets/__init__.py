"""Brackets of successive halving: what became of their trials at each rung."""
