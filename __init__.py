"""Root of the working tree; the package itself is `shardwise`, whose folders lie beside this file."""
