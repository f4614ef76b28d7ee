#include "plugins/jobs/dedup/made_by_stages.hpp"

#include <algorithm>

#include "core/run/job_stages.hpp"
#include "core/base/suggest.hpp"

namespace kinora::core {
namespace {

std::string lacks(const std::string& what, const std::string& name, const std::vector<std::string>& there) {
  const std::string what_is = there.empty() ? "; there is none" : did_you_mean_or_list(name, there, "there are");
  return "no stage makes the " + what + " '" + name + "'" + what_is;
}

}  // namespace

MadeByStages::MadeByStages(const std::vector<const ComponentUse*>& stages) {
  for (const auto* use : stages) {
    const std::string name = use->id.substr(use->id.find('/') + 1), family = name.substr(0, name.find('.'));
    const std::string called = use->options.values().value("name", "");
    knows_all_ = knows_all_ && is_of_own_family(use->id);
    if (family == "embed" && !called.empty()) embeddings_.push_back(called);
    if (family == "filter") scores_.push_back(called.empty() ? name : "filter." + called);
  }
}

std::string MadeByStages::lacks_embedding(const std::string& name) const {
  const bool is_made = std::find(embeddings_.begin(), embeddings_.end(), name) != embeddings_.end();
  if (is_made || !knows_all_) return "";
  const std::string stage = name == "classic" ? "embed.classic" : "an embed stage of that name";
  return lacks("embedding", name, embeddings_) +
         (embeddings_.empty()
              ? "; put " + stage + ", with sample_fps of video.clips or clip.transcode, into the stages"
              : "");
}

std::string MadeByStages::lacks_score(const std::string& score) const {
  const bool is_made = std::any_of(scores_.begin(), scores_.end(), [&](const std::string& known) {
    return score == known || score.starts_with(known + ".");
  });
  return is_made || !knows_all_ ? "" : lacks("score", score, scores_);
}

}  // namespace kinora::core
