// Builds the samples of clips that clip.transcode and video.clips emit.
#pragma once
#include <set>
#include <string>

#include "clips/clip_plan.hpp"
#include "clips/transcode.hpp"
#include "kinora/sample.hpp"
#include "media/sample_media.hpp"
#include "shots/frame_times.hpp"

namespace kinora::video {

std::string clip_key(const Sample& video, int64_t number);

// Length of the clip: frames / fps if that equals the span up to rounding, else the span's length.
double seconds_of(const Range& range, const ClipSpan& span, double fps);

// Returns the sample of clip `number`, with its facts but without its bytes. Each of the facts start_s, end_s
// and duration_s follows the rate if it agrees, as in seconds_of().
Sample clip_sample(const Sample& video, int64_t number, const Range& range, double fps, const ClipSpan& span);

// Puts the made clip into its sample: field mp4, the facts of the clip's file (upright, of even size, in
// 4:2:0, as long as its timestamps, possibly cropped), and the tensor frames if there are sampled frames.
void fill_clip(Sample& sample, Clip clip);

// Returns the keys of clips that an earlier run has finished, from field ended.json. Error(KINORA_ERROR_DATA)
// if it is not an array of strings.
std::set<std::string> ended_clips(const Sample& video);

// Sets the sample's tensor "frames" and the fact frames_at.
void set_frames(Sample& sample, nlohmann::json& facts, SampledFrames frames);

// Returns the fact crop {x, y, width, height} of a video, in pixels of its upright picture; empty without it.
// Error(KINORA_ERROR_DATA) if it has another form.
Crop crop_of(const Sample& video);

}  // namespace kinora::video
