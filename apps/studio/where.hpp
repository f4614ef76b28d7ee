// Conditions of run files (`where`) on the clips that the studio shows, and the condition that a view is equal to.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "apps/studio/query.hpp"
#include "plugins/jobs/curation/where.hpp"

namespace kinora::studio {

// Facts by name, one value per clip. Facts that are neither numbers nor texts of few values in every clip are read from
// the jobs' files when first needed, since a condition means what it means to a select job; of consumed videos all are.
// [owner-thread]
class Facts {
 public:
  // Whether the condition holds for a clip, by index; people's tags replace its own. Throws
  // Error(KINORA_ERROR_INVALID): "where: column 7: expected a number, ..., found 'x'", or if no clip has a fact of
  // that name. The catalogue must outlive the function.
  std::function<bool(size_t clip)> condition(const std::string& where, const Catalogue&, EditsOf edits);
  // The clip's fact as text; "" if it has none.
  std::string text(const std::string& name, size_t clip, const Catalogue&);
  // To be called when the catalogue has been read again.
  void forget() { values_.clear(); }

 private:
  void read(const std::vector<std::string>& names, const Catalogue&);
  void require(const core::Where&, const Catalogue&) const;

  std::map<std::string, std::vector<nlohmann::json>> values_;
};

// The condition that holds, among kept clips, for those of the query; `rows`: what the query selects. Searches,
// decisions, outcomes and rules are no facts: a query by them becomes a list of keys. Throws
// Error(KINORA_ERROR_INVALID) if that list would be longer than a run file should be.
std::string where_of(const QueryScope&, const Query&, const std::vector<size_t>& rows);

// The name of the column that an expression finds first under this name of a fact, which may be short; "": none.
std::string column_name(const Catalogue&, const std::string& fact);

// The condition of one bound.
std::string where_of(const std::string& fact, bool is_most, double value);

}  // namespace kinora::studio
