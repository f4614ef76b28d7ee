#include "kinora/plugin.hpp"

KINORA_PLUGIN(VideoProbe, VideoRead, VideoWrite, ShotsContent, ClipTranscode, ClipPreview, FilterMotion, CaptionDescribe)
