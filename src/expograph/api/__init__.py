"""What `import expograph` offers beyond the packages themselves, each a few lines over them."""
