"""What must hold on every page of the built site: `files` reads the pages, `pages` opens them in a browser."""
