// Samples of clips: what clip.transcode and film.clips say of what they have cut.
#pragma once
#include <set>
#include <string>

#include "clips/clip_plan.hpp"
#include "kinora/sample.hpp"
#include "media.hpp"
#include "shots/shot_clock.hpp"
#include "clips/transcode.hpp"

namespace kinora::video {

std::string clip_key(const Sample& film, int64_t number);

// How long the clip is: by the rate, frames / fps, where that is the span but for its rounding, else the span's.
double seconds_of(const Range& range, const ClipSpan& span, double fps);

// The film's clip `number`, with its facts but without its bytes. The facts start_s, end_s and duration_s are by the rate as
// in seconds_of(), each on its own.
Sample clip_sample(const Sample& film, int64_t number, const Range& range, double fps, const ClipSpan& span);

// Puts the made clip into its sample: field mp4, the facts of the clip's own file (it is upright, of even
// size, in 4:2:0, as long as its own timestamps say, and cropped if it is), the tensor frames if there are
// samples.
void fill_clip(Sample& sample, Clip clip);

// Keys of clips that an earlier run has ended: field ended.json. Error(KINORA_DATA) if it is no array of
// strings.
std::set<std::string> ended_clips(const Sample& film);

// The damage that film.remux has found in the film's own file, which its whole copy does not show; empty if there is none.
std::string damage_before_remux(const Sample& film);

// The tensor "frames" of the sample and the fact frames_at.
void set_frames(Sample& sample, nlohmann::json& facts, SampledFrames frames);

// The fact crop {x, y, width, height} of a film, in pixels of its upright picture; empty without it.
// Error(KINORA_DATA) if it is something else.
Crop crop_of(const Sample& film);

}  // namespace kinora::video
