// What the stages of a curate job leave with its clips, as far as their names tell: stages filter.* write scores of
// their own names, stages embed.* a field NAME.npy, by their option `name`.
#pragma once
#include <string>
#include <vector>

#include "core/run/run_file.hpp"

namespace kinora::core {

class MadeByStages {
 public:
  explicit MadeByStages(const std::vector<const ComponentUse*>& stages);

  // "no stage makes the embedding 'clas', did you mean 'classic'?", or "" if one does, or if one of a family that
  // Kinora does not know might.
  std::string lacks_embedding(const std::string& name) const;
  // The same of a member of the facts' scores: "filter.blur", "filter.flow.p10".
  std::string lacks_score(const std::string& score) const;

 private:
  std::vector<std::string> embeddings_, scores_;
  bool knows_all_ = true;
};

}  // namespace kinora::core
