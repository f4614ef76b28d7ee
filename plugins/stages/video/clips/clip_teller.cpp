#include "clips/clip_teller.hpp"

#include <algorithm>
#include <limits>

#include "kinora/bins.hpp"
#include "kinora/curation.hpp"

namespace kinora::video {
namespace {

// Renames the fact crop to cropped, because the clip's file is already cropped.
void say_cropped(Sample& clip) {
  auto facts = facts_of(clip);
  facts["cropped"] = facts["crop"];
  facts.erase("crop");
  clip.set("json", facts.dump());
}

// Notes the bound in seconds that dropped the clip. If the clip is long enough it has too few frames, and this bound does
// not apply.
void say_bound(Sample& clip, double seconds, double min_length) {
  constexpr double kRounding = 1e-6;
  if (seconds >= min_length - kRounding) return;
  auto facts = facts_of(clip);
  note_bound(facts, "clip.too-short", seconds, min_length, std::numeric_limits<double>::infinity());
  clip.set("json", facts.dump());
}

}  // namespace

ClipTeller::ClipTeller(const Sample& film, const Media& media, const ClipOptions& options, double fps)
    : film_(film), media_(media), options_(options), fps_(fps), ended_(ended_clips(film)) {
  if (options.crop) crop_ = crop_of(film);
}

Fate ClipTeller::fate(int64_t number, double seconds, bool too_short) {
  if (!ended_.empty() && ended_.count(clip_key(film_, number)) > 0) return Fate::left_out;
  if (too_short) return Fate::dropped;
  return options_.bins == "drop" && !bin(seconds).complete() ? Fate::dropped : Fate::made;
}

void ClipTeller::tell(const FilmClip& which, Clip clip, const Emit& emit) {
  if (which.fate == Fate::left_out) return;
  const Range& range = which.planned.range;
  const ClipSpan span = clip.span.value_or(which.planned.span);
  Sample sample = clip_sample(film_, which.number, range, fps_, span);
  const double seconds = seconds_of(range, span, fps_);
  const bool too_short = which.planned.too_short;
  if (which.fate == Fate::dropped) {
    if (too_short) say_bound(sample, seconds, options_.min_length);
    return emit.drop(std::move(sample), too_short ? "clip.too-short" : "clip.no-bin", seconds);
  }
  if (!clip.error.empty()) return emit.fail(std::move(sample), clip.error);
  if (range.end - range.first == 1)
    log(Log::warn, std::string(sample.key()) +
                       " is a clip of one frame, perhaps of a picture; min_frames = 2 leaves such clips out");
  fill_clip(sample, std::move(clip));
  if (!crop_.empty()) say_cropped(sample);
  emit(std::move(sample));
}

TranscodeOptions ClipTeller::how(const Run& run) const {
  TranscodeOptions o = transcode_options(options_);
  o.crop = crop_;
  if (options_.parallel == 0)
    o.parallel = static_cast<int>(std::clamp<int64_t>(kClipsACore * run.threads() / options_.threads, 1, o.parallel));
  o.check = [&run] { run.check_cancelled(); };
  return o;
}

Bin ClipTeller::bin(double seconds) {
  if (!size_)
    size_ = media_call([&] {
      const VideoInfo video = probe(*media_.source, media_.name).video;
      const Crop part = crop_.empty() ? Crop{0, 0, video.width, video.height}
                                      : stored_crop(crop_, video.width, video.height, video.rotation);
      return clip_size(part.width, part.height, video.rotation, static_cast<int>(options_.max_height));
    });
  return bin_of(size_->width, size_->height, seconds);
}

}  // namespace kinora::video
