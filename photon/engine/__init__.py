from photon.engine.async_engine import AsyncEngine as AsyncEngine
from photon.engine.engine import Engine as Engine
