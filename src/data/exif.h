/* What EXIF says of how a picture is held. */
#ifndef RONDE_EXIF_H
#define RONDE_EXIF_H

#include "base/base.h"

/* 1 to 8; 1, upright, where the data, behind "Exif\0\0", say nothing of it or are damaged. */
int ronde__exif_orientation(const void *data, size_t bytes);

#endif
