#include "clips/cutting.hpp"

#include <algorithm>

namespace kinora::video {
namespace {

// Where the shots begin: at times_us, if there is one for each cut, else by the rate.
std::vector<Moment> shot_starts(const nlohmann::json& shots) {
  const double fps = shots.at("fps");
  const auto times = shots.find("times_us");
  const auto& cuts = shots.at("cuts");
  const bool timed = times != shots.end() && times->is_array() && times->size() == cuts.size() &&
                     std::all_of(times->begin(), times->end(), [](const auto& t) { return t.is_number(); });
  std::vector<Moment> out{{0, 0}};
  for (size_t i = 0; i < cuts.size(); ++i) {
    const int64_t frame = cuts[i];
    out.push_back({frame, timed ? (*times)[i].template get<int64_t>() : span_in_shot({frame, frame}, {}, fps).start_us});
  }
  return out;
}

}  // namespace

Cutting::Cutting(const Sample& film, const Media& media, const nlohmann::json& shots, const ClipOptions& options)
    : media_(media), frames_(shots.at("frames")), teller_(film, media, options, shots.at("fps")) {
  const double fps = shots.at("fps");
  const auto starts = shot_starts(shots);
  std::vector<int64_t> cuts;
  for (size_t i = 1; i < starts.size(); ++i) cuts.push_back(starts[i].frame);
  auto shot = starts.begin();
  for (const PlannedClip& clip : plan_clips(cuts, frames_, fps, plan_options(options))) {
    while (shot + 1 != starts.end() && (shot + 1)->frame <= clip.range.first) ++shot;
    const auto number = static_cast<int64_t>(clips_.size());
    const Fate fate = teller_.fate(number, clip.range.end - clip.range.first, clip.too_short);
    clips_.push_back({number, clip, fate, *shot});
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
    if (sound) how.packets = index_packets(*media_.source, media_.name, frames_);
    return transcode_clips(*media_.source, media_.name, ranges, how, [&](size_t i, Clip clip) {
      run.check_cancelled();
      teller_.tell(*made[i], std::move(clip), emit);
    });
  });
}

}  // namespace kinora::video
