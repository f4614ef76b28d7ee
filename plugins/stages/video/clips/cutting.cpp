#include "clips/cutting.hpp"

#include <algorithm>
#include <iterator>
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

constexpr double kShortestBin = 5, kWidestBin = 10;  // seconds, width : height; see kinora/bins.hpp

// The rule and the bound that drop a clip.
struct Bound {
  const char* rule;
  double score, at_least;
};

Bound bound_of_short(int64_t frames, double seconds, const ClipOptions& options) {
  constexpr double kRounding = 1e-6;
  if (seconds < options.min_length - kRounding) return {"clip.too-short", seconds, options.min_length};
  if (frames < options.min_frames)
    return {"clip.too-few-frames", static_cast<double>(frames), static_cast<double>(options.min_frames)};
  return {"clip.too-short", seconds, 2 * options.edge_crop};  // the edges of the shot are all of it
}

void drop(Sample clip, const Bound& bound, const Emit& emit) {
  auto facts = facts_of(clip);
  note_bound(facts, bound.rule, bound.score, bound.at_least, std::numeric_limits<double>::infinity());
  clip.set("json", facts.dump());
  emit.drop(std::move(clip), bound.rule, bound.score);
}

// Returns the times of the video's frames. Error(KINORA_ERROR_DATA) if shots.json is inconsistent.
FrameTimes times_of(const Sample& video, const nlohmann::json& shots) {
  try {
    return read_frame_times(shots);
  } catch (const std::invalid_argument& e) {
    throw Error(KINORA_ERROR_DATA, "sample '" + std::string(video.key()) +
                                       "': its field shots.json is wrong: " + e.what() +
                                       "; put a stage shots.* before this one");
  }
}

std::vector<int64_t> cuts_of(const Sample& video, const nlohmann::json& shots, const char* member,
                             int64_t frames) {
  std::vector<int64_t> cuts;
  for (const auto& cut : shots.value(member, nlohmann::json::array())) {
    const bool ascends = cut.is_number_integer() && cut >= (cuts.empty() ? 0 : cuts.back()) && cut <= frames;
    if (!ascends)
      throw Error(KINORA_ERROR_DATA, "sample '" + std::string(video.key()) +
                                         "': its field shots.json has cuts that do not ascend within its " +
                                         std::to_string(frames) +
                                         " frames; put a stage shots.* before this one");
    cuts.push_back(cut);
  }
  return cuts;
}

// A shot ends also where the pictures take another form, whatever a stage made of the cuts.
std::vector<int64_t> all_cuts_of(const Sample& video, const nlohmann::json& shots, int64_t frames) {
  const auto cuts = cuts_of(video, shots, "cuts", frames), changes = cuts_of(video, shots, "changes", frames);
  std::vector<int64_t> all;
  std::set_union(cuts.begin(), cuts.end(), changes.begin(), changes.end(), std::back_inserter(all));
  return all;
}

std::vector<Range> transitions_of(const Sample& video, const nlohmann::json& shots, int64_t frames) {
  std::vector<Range> out;
  for (const auto& t : shots.value("transitions", nlohmann::json::array())) {
    const bool pair = t.is_array() && t.size() == 2 && t[0].is_number_integer() && t[1].is_number_integer();
    const int64_t least = out.empty() ? 0 : out.back().end;
    if (!pair || t[0] < least || t[1] < t[0] || t[1] > frames)
      throw Error(KINORA_ERROR_DATA,
                  "sample '" + std::string(video.key()) +
                      "': its field shots.json has transitions that are not pairs of frames "
                      "that ascend within its " +
                      std::to_string(frames) + " frames; put a stage shots.* before this one");
    out.push_back({t[0], t[1]});
  }
  return out;
}

}  // namespace

ClipTeller::ClipTeller(const Sample& video, const Media& media, const ClipOptions& options, double fps)
    : video_(video), media_(media), options_(options), fps_(fps), ended_(ended_clips(video)) {
  if (options.crop) crop_ = crop_of(video);
}

Fate ClipTeller::fate(int64_t number, double seconds, bool too_short) {
  if (!ended_.empty() && ended_.count(clip_key(video_, number)) > 0) return Fate::left_out;
  if (too_short) return Fate::dropped;
  return options_.bins == "drop" && !bin(seconds).complete() ? Fate::dropped : Fate::made;
}

void ClipTeller::tell(const NumberedClip& which, Clip clip, const Emit& emit) {
  if (which.fate == Fate::left_out) return;
  const Range& range = which.planned.range;
  const ClipSpan span = clip.span.value_or(which.planned.span);
  Sample sample = clip_sample(video_, which.number, range, fps_, span);
  const double seconds = seconds_of(range, span, fps_);
  if (which.fate == Fate::dropped && which.planned.too_short)
    return drop(std::move(sample), bound_of_short(range.end - range.first, seconds, options_), emit);
  if (which.fate == Fate::dropped) return drop_without_bin(std::move(sample), seconds, emit);
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

void ClipTeller::drop_without_bin(Sample clip, double seconds, const Emit& emit) {
  if (!bin(seconds).duration) return drop(std::move(clip), {"clip.no-bin", seconds, kShortestBin}, emit);
  auto facts = facts_of(clip);
  const double aspect = shape_->first / shape_->second;
  note_bound(facts, "clip.no-bin", aspect, 0, kWidestBin);
  clip.set("json", facts.dump());
  emit.drop(std::move(clip), "clip.no-bin", aspect);
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
  if (!shape_)
    shape_ = media_call([&] {
      const VideoInfo video = probe(*media_.source, media_.name).video;
      const Crop part = crop_.empty() ? Crop{0, 0, video.width, video.height}
                                      : stored_crop(crop_, video.width, video.height, video.rotation);
      const Size size =
          clip_size(part.width, part.height, video.rotation, static_cast<int>(options_.max_height));
      const double aspect = video.sample_aspect.value();
      return std::pair(size.width * (video.rotation.swaps_sides() ? 1 / aspect : aspect),
                       double{1} * size.height);
    });
  return bin_of(shape_->first, shape_->second, seconds);
}

Cutting::Cutting(const Sample& video, const Media& media, const nlohmann::json& shots,
                 const ClipOptions& options)
    : media_(media), frames_(shots.at("frames")), teller_(video, media, options, shots.at("fps")) {
  const FrameTimes times = times_of(video, shots);
  for (const PlannedClip& clip : plan_clips(all_cuts_of(video, shots, frames_), times, plan_options(options),
                                            transitions_of(video, shots, frames_))) {
    const auto number = static_cast<int64_t>(clips_.size());
    const double seconds = static_cast<double>(clip.span.end_us - clip.span.start_us) / 1e6;
    clips_.push_back({number, clip, teller_.fate(number, seconds, clip.too_short)});
  }
}

std::string Cutting::cut(const Emit& emit, const Run& run, bool sound) {
  std::vector<Range> ranges;
  std::vector<const NumberedClip*> made;
  for (const NumberedClip& clip : clips_) {
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
