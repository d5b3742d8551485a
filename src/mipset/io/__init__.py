"""Bytes in and out: whole files, web servers."""
