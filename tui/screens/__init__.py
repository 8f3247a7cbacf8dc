"""The five steps and the windows that open over them."""
