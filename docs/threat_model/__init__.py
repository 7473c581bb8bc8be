"""The threats to an installation as data, and the page that is made of them."""
