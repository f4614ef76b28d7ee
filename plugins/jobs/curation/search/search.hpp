// What is nearest to a text or to a clip.
#pragma once
#include "core/runtime/runtime.hpp"
#include "plugins/jobs/curation/search/collection.hpp"

namespace kinora::core {

struct Hit {
  ClipRef clip;
  double score = 0;  // cosine
};

// Of every row with `query`; 0 where one of them is of no length. Error(KINORA_INVALID) if the query is of
// another size.
std::vector<double> cosines(const Embedded& among, std::span<const float> query);

// The `count` rows of greatest cosine with `query`, the greatest first; of equal ones the lesser key.
// `except`: a row that is left out, -1: none.
std::vector<Hit> nearest(const Embedded& among, std::span<const float> query, size_t count,
                         int64_t except = -1);

// Texts as the captions of this `encoder` (see Embedded) were encoded. Opens libtorch.
std::vector<std::vector<float>> text_vectors(Runtime&, const nlohmann::json& encoder,
                                             const std::vector<std::string>& texts);

// A video file as embed.classic, with its own defaults, sees two frames a second of it. Its motion is the
// clips' if they were sampled so too; colours and gradients do not depend on it.
std::vector<float> video_query(Runtime&, const std::filesystem::path& file);

// The row of the clip of this key, -1 if there is none.
int64_t row_of(const Embedded&, const std::string& key);

}  // namespace kinora::core
