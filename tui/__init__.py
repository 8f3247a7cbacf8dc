"""The terminal app. It never imports torch: a worker process computes, the screen follows its journal."""
