// A clip as the page shows it, in lists and alone.
#pragma once
#include <string>
#include <vector>

#include "apps/studio/edited_catalogue.hpp"
#include "apps/studio/query.hpp"

namespace kinora::studio {

// null for NaN.
nlohmann::json number_or_null(double value);

// A row of a list. found: the search that the row is part of; null: none.
nlohmann::json row_json(const EditedCatalogue&, size_t clip, const Found* found);

// The clip's row, facts, size of the stored file ("bytes"), range, own values and edits. embeddings: names of those
// that pictures of the run have. Throws Error KINORA_ERROR_IO if its line cannot be read.
nlohmann::json detail_json(const EditedCatalogue&, const Clip&, const std::vector<std::string>& embeddings);

}  // namespace kinora::studio
