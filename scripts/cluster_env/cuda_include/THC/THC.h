/* That this header of old torch can be included is how BlueFog's setup.py recognises CUDA. */
#pragma once
