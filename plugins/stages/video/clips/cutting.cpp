#include "clips/cutting.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

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

// Notes the bound in seconds that dropped the clip. If the clip is long enough it has too few frames, and
// this bound does not apply.
void say_bound(Sample& clip, double seconds, double min_length) {
  constexpr double kRounding = 1e-6;
  if (seconds >= min_length - kRounding) return;
  auto facts = facts_of(clip);
  note_bound(facts, "clip.too-short", seconds, min_length, std::numeric_limits<double>::infinity());
  clip.set("json", facts.dump());
}

// Returns the times of the video's frames. Error(KINORA_ERROR_DATA) if shots.json is inconsistent.
FrameTimes times_of(const Sample& film, const nlohmann::json& shots) {
  try {
    return read_frame_times(shots);
  } catch (const std::invalid_argument& e) {
    throw Error(KINORA_ERROR_DATA, "sample '" + std::string(film.key()) +
                                       "': its field shots.json is wrong: " + e.what() +
                                       "; put a stage shots.* before this one");
  }
}

std::vector<int64_t> cuts_of(const Sample& film, const nlohmann::json& shots, int64_t frames) {
  std::vector<int64_t> cuts;
  for (const auto& cut : shots.at("cuts")) {
    const bool ascends = cut.is_number_integer() && cut >= (cuts.empty() ? 0 : cuts.back()) && cut <= frames;
    if (!ascends)
      throw Error(KINORA_ERROR_DATA, "sample '" + std::string(film.key()) +
                                         "': its field shots.json has cuts that do not ascend within its " +
                                         std::to_string(frames) +
                                         " frames; put a stage shots.* before this one");
    cuts.push_back(cut);
  }
  return cuts;
}

std::vector<Range> transitions_of(const Sample& film, const nlohmann::json& shots, int64_t frames) {
  std::vector<Range> out;
  for (const auto& t : shots.value("transitions", nlohmann::json::array())) {
    const bool pair = t.is_array() && t.size() == 2 && t[0].is_number_integer() && t[1].is_number_integer();
    const int64_t least = out.empty() ? 0 : out.back().end;
    if (!pair || t[0] < least || t[1] < t[0] || t[1] > frames)
      throw Error(KINORA_ERROR_DATA,
                  "sample '" + std::string(film.key()) +
                      "': its field shots.json has transitions that are not pairs of frames "
                      "that ascend within its " +
                      std::to_string(frames) + " frames; put a stage shots.* before this one");
    out.push_back({t[0], t[1]});
  }
  return out;
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
                       " is a clip of one frame, perhaps of a picture; stage picture.read stores pictures as "
                       "they are, and "
                       "min_frames = 2 leaves such clips out");
  fill_clip(sample, std::move(clip));
  if (!crop_.empty()) say_cropped(sample);
  emit(std::move(sample));
}

TranscodeOptions ClipTeller::how(const Run& run) const {
  TranscodeOptions o = transcode_options(options_);
  o.crop = crop_;
  if (options_.parallel == 0)
    o.parallel =
        static_cast<int>(std::clamp<int64_t>(kClipsACore * run.threads() / options_.threads, 1, o.parallel));
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

Cutting::Cutting(const Sample& film, const Media& media, const nlohmann::json& shots,
                 const ClipOptions& options)
    : media_(media), frames_(shots.at("frames")), teller_(film, media, options, shots.at("fps")) {
  const FrameTimes times = times_of(film, shots);
  for (const PlannedClip& clip : plan_clips(cuts_of(film, shots, frames_), times, plan_options(options),
                                            transitions_of(film, shots, frames_))) {
    const auto number = static_cast<int64_t>(clips_.size());
    const double seconds = static_cast<double>(clip.span.end_us - clip.span.start_us) / 1e6;
    clips_.push_back({number, clip, teller_.fate(number, seconds, clip.too_short)});
  }
}

std::string Cutting::cut(const Emit& emit, const Run& run, bool sound) {
  std::vector<Range> ranges;
  std::vector<const FilmClip*> made;
  for (const FilmClip& clip : clips_) {
    if (clip.fate != Fate::made) {
      teller_.tell(clip, {}, emit);
      continue;
    }
    ranges.push_back(clip.planned.range);
    made.push_back(&clip);
  }
  if (ranges.empty()) return "";
  return media_call([&] {
    TranscodeOptions how = teller_.how(run);
    if (sound) how.packets = index_packets(*media_.source, media_.name, frames_, how.check);
    return transcode_clips(*media_.source, media_.name, ranges, how, [&](size_t i, Clip clip) {
      run.check_cancelled();
      teller_.tell(*made[i], std::move(clip), emit);
    });
  });
}

}  // namespace kinora::video
