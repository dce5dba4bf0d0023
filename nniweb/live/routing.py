"""Addresses of the websockets."""

from django.urls import path

from nniweb.live.consumer import LiveConsumer

websocket_urlpatterns = [path("live/", LiveConsumer.as_asgi())]
