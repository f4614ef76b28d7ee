#include "plugins/jobs/latents/shot_runs.hpp"

#include <algorithm>
#include <charconv>
#include <map>

#include <ATen/ATen.h>

#include "core/torch/tensors/torch_guard.hpp"
#include "plugins/jobs/latents/latents.hpp"

namespace kinora::core {
namespace {

struct Clip {
  std::string video;
  int64_t number = 0;
};

// The clip of a window by its key, VIDEO-0003@17.
Clip clip_of(const std::string& key) {
  const std::string clip = key.substr(0, key.rfind('@'));
  const auto dash = clip.rfind('-');
  Clip out;
  if (dash != std::string::npos) {
    const char *first = clip.data() + dash + 1, *last = clip.data() + clip.size();
    const auto read = std::from_chars(first, last, out.number);
    out.video = clip.substr(0, dash);
    if (last - first >= 4 && read.ec == std::errc() && read.ptr == last) return out;
  }
  raise(KINORA_ERROR_INVALID,
        "shots: '{}' does not say which clip of its video it is, as VIDEO-0003 does, a key that a curate job "
        "gives; encode shards of clips that stage/video.clips or clip.transcode cut, or leave shots out",
        clip);
}

}  // namespace

std::vector<ShotRun> shot_runs(const std::vector<std::string>& keys, int64_t shots) {
  std::map<std::string, std::map<int64_t, std::vector<std::string>>> windows;  // by video and number
  for (const auto& key : keys) {
    const Clip clip = clip_of(key);
    windows[clip.video][clip.number].push_back(key);
  }
  std::vector<ShotRun> out;
  for (const auto& [video, clips] : windows)
    for (auto first = clips.begin(); first != clips.end(); ++first) {
      std::vector<const std::vector<std::string>*> run;
      for (auto it = first;
           it != clips.end() && it->first == first->first + static_cast<int64_t>(run.size()) &&
           static_cast<int64_t>(run.size()) < shots;
           ++it)
        run.push_back(&it->second);
      if (static_cast<int64_t>(run.size()) < shots) continue;
      size_t common = run[0]->size();
      for (const auto* its : run) common = std::min(common, its->size());
      for (size_t i = 0; i < common; ++i) {
        ShotRun one{video + "@", {}};
        for (const auto* its : run) {
          const std::string& window = (*its)[i];
          std::string place = window.substr(video.size() + 1);
          std::replace(place.begin(), place.end(), '@', ':');
          one.key += (one.windows.empty() ? "" : "+") + place;
          one.windows.push_back(window);
        }
        out.push_back(std::move(one));
      }
    }
  if (out.empty())
    raise(KINORA_ERROR_INVALID,
          "shots = {}: none of the {} videos has so many encoded clips with successive numbers; lower shots, "
          "or keep more clips in the curate job",
          shots, windows.size());
  return out;
}

std::vector<int64_t> joined_shape(std::vector<int64_t> window, const ShotCut& cut) {
  if (window.size() != 4)
    raise(KINORA_ERROR_INVALID, "shots joins latents, and the encode job makes codes; leave shots out");
  int64_t& frames = window[1];
  if (frames < cut.chunk)
    raise(KINORA_ERROR_INVALID,
          "shots: a shot has whole chunks, and windows of {} latent frames are shorter than chunk = {}; "
          "lower chunk, or encode longer windows",
          frames, cut.chunk);
  frames = frames / cut.chunk * cut.chunk * cut.shots;
  return window;
}

LatentItem joined_shots(std::string key, const std::vector<LatentItem>& shots, int64_t chunk) {
  LatentItem out{std::move(key), {}, {}, shots.front().more, {}};
  std::vector<at::Tensor> latents, texts;
  for (const auto& shot : shots) {
    for (const auto& [name, tensor] : shot.more)
      if (const auto its = out.more.find(name);
          tensor.dim() > 1 || its == out.more.end() || !at::equal(tensor, its->second))
        raise(KINORA_ERROR_INVALID,
              "shots joins latents and texts, and '{}' of {} is not one for all shots of {}; encode without "
              "it, or leave shots out",
              name, shot.key, out.key);
    const int64_t frames = shot.latent.size(1), whole = frames / chunk * chunk;
    latents.push_back(shot.latent.narrow(1, latents.empty() ? 0 : frames - whole, whole));
    const at::Tensor text = shot.text;
    texts.push_back(text.size(0) > 0 ? text : at::zeros({1, text.size(1)}, text.options()));
    out.shots.push_back(texts.back().size(0));
  }
  out.latent = at::cat(latents, 1);
  out.text = at::cat(texts);
  return out;
}

}  // namespace kinora::core
