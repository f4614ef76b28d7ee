#include "clips/cutting.hpp"

#include <stdexcept>

namespace kinora::video {
namespace {

// Returns the times of the video's frames. Error(KINORA_DATA) if shots.json is inconsistent.
FrameTimes times_of(const Sample& film, const nlohmann::json& shots) {
  try {
    return read_frame_times(shots);
  } catch (const std::invalid_argument& e) {
    throw Error(KINORA_DATA, "sample '" + std::string(film.key()) + "': its field shots.json is wrong: " +
                                 e.what() + "; put a stage shots.* before this one");
  }
}

std::vector<int64_t> cuts_of(const Sample& film, const nlohmann::json& shots, int64_t frames) {
  std::vector<int64_t> cuts;
  for (const auto& cut : shots.at("cuts")) {
    const bool ascends = cut.is_number_integer() && cut >= (cuts.empty() ? 0 : cuts.back()) && cut <= frames;
    if (!ascends)
      throw Error(KINORA_DATA, "sample '" + std::string(film.key()) +
                                   "': its field shots.json has cuts that do not ascend within its " +
                                   std::to_string(frames) + " frames; put a stage shots.* before this one");
    cuts.push_back(cut);
  }
  return cuts;
}

}  // namespace

Cutting::Cutting(const Sample& film, const Media& media, const nlohmann::json& shots,
                 const ClipOptions& options)
    : media_(media), frames_(shots.at("frames")), teller_(film, media, options, shots.at("fps")) {
  const FrameTimes times = times_of(film, shots);
  for (const PlannedClip& clip : plan_clips(cuts_of(film, shots, frames_), times, plan_options(options))) {
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
