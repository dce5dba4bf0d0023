"""Who asks over REST: by a token or a session, held by the leash of the token, at most so often."""
