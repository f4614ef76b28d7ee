#include "kinora/plugin.hpp"

KINORA_PLUGIN(VideoProbe, FilmRemux, VideoRead, VideoWrite, ShotsContent, ClipTranscode, CaptionDescribe)
