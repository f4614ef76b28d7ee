#include "kinora/plugin.hpp"

KINORA_PLUGIN(VideoProbe, VideoRemux, PictureRead, VideoRead, VideoWrite, Shots, ShotsContent, ShotsAdaptive,
              ShotsHistogram, ShotsHash, ShotsThreshold, ShotsFixed, ShotsTransNetV2, ClipTranscode,
              VideoClips, ClipPreview, FilterMotion, CaptionDescribe)
