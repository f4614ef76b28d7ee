#include "cutting.hpp"

#include <algorithm>

#include "bins.hpp"
#include "clip_samples.hpp"

namespace kinora::video {
namespace {

// The crop is of the film, and done.
void say_cropped(Sample& clip) {
  auto facts = facts_of(clip);
  facts["cropped"] = facts["crop"];
  facts.erase("crop");
  clip.set("json", facts.dump());
}

}  // namespace

Cutting::Cutting(const Sample& film, const Media& media, const nlohmann::json& shots,
                 const ClipOptions& options)
    : film_(film), media_(media), options_(options), fps_(shots.at("fps")), frames_(shots.at("frames")) {
  for (const auto& cut : shots.at("cuts")) cuts_.push_back(cut);
  if (options.crop) crop_ = crop_of(film);
}

void Cutting::drop_unwanted(const Emit& emit) {
  const auto ended = ended_clips(film_);
  const auto plan = plan_clips(cuts_, frames_, fps_, plan_options(options_));
  for (size_t i = 0; i < plan.size(); ++i) {
    const auto number = static_cast<int64_t>(i);
    Sample sample = clip_sample(film_, number, plan[i].range, fps_);
    const double seconds = static_cast<double>(plan[i].range.end - plan[i].range.first) / fps_;
    if (ended.count(std::string(sample.key()))) continue;
    if (plan[i].too_short) {
      emit.drop(std::move(sample), "clip.too-short", seconds);
    } else if (options_.bins == "drop" && !bin(seconds).complete()) {
      emit.drop(std::move(sample), "clip.no-bin", seconds);
    } else {
      ranges_.push_back(plan[i].range);
      numbers_.push_back(number);
    }
  }
}

TranscodeOptions Cutting::how(const Run& run, bool sound) const {
  TranscodeOptions o = transcode_options(options_);
  o.crop = crop_;
  if (options_.parallel == 0)
    o.parallel = static_cast<int>(std::clamp<int64_t>(run.threads() / options_.threads, 1, o.parallel));
  o.check = [&run] { run.check_cancelled(); };
  if (sound) o.packets = index_packets(*media_.source, media_.name, frames_);
  return o;
}

std::string Cutting::cut(const Emit& emit, const Run& run, bool sound) {
  const TranscodeOptions o = media_call([&] { return how(run, sound); });
  return media_call([&] {
    return transcode_clips(*media_.source, media_.name, ranges_, o, [&](size_t i, Clip clip) {
      run.check_cancelled();
      Sample made = clip_sample(film_, numbers_[i], ranges_[i], fps_);
      if (!clip.error.empty()) return emit.fail(std::move(made), clip.error);
      fill_clip(made, std::move(clip));
      if (!crop_.empty()) say_cropped(made);
      emit(std::move(made));
    });
  });
}

Bin Cutting::bin(double seconds) {
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
