#include "kinora/plugin.hpp"

KINORA_PLUGIN(VideoProbe, FilmRemux, VideoRead, VideoWrite, Shots, ShotsContent, ShotsAdaptive,
              ShotsHistogram, ShotsHash, ShotsThreshold, ShotsFixed, ClipTranscode, VideoClips, ClipPreview,
              FilterMotion, CaptionDescribe)
