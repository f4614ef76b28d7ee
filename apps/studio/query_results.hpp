// Keeps the results of the page's queries: the last search, and the latest selections, of which the page requests
// windows.
#pragma once
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "apps/studio/edited_catalogue.hpp"
#include "apps/studio/meaning.hpp"
#include "apps/studio/query.hpp"
#include "apps/studio/where.hpp"

namespace kinora::studio {

// [owner-thread] Each function is for the catalogue as it was last read.
class QueryResults {
 public:
  // Result of a search by Meaning; null: there is none, or the query searches by words.
  using Ranked = std::shared_ptr<const Ranking>;
  // The clips that a query selected at a version.
  struct View {
    Parameters by;
    int64_t at = 0;
    std::vector<size_t> rows;
    int64_t videos = 0;
  };

  explicit QueryResults(const EditedCatalogue& data) : data_(data) {}

  // Stores the clips found for scope(). Throws Error(KINORA_ERROR_NOT_FOUND) if the clip cannot be compared.
  void search(const Query&, const Ranked&);
  // Searches and selects, or returns the selection that the page names by `at`.
  const View& view(const Parameters&, const Query&, const Ranked&);
  // With the last search's clips, and the query's condition; without a query, all clips.
  QueryScope scope() const;
  QueryScope scope(const Query&);
  // Number of copies that an empty view would have if they were shown.
  size_t hidden_in(Query, const View&);
  // The clip's fact as text.
  std::string text(const std::string& name, size_t clip);

  // These return what the last search found, by what ("meaning", "words", "pictures", ""), and why not by meaning.
  const Found& found() const { return searched_.found; }
  const std::string& by() const { return searched_.by; }
  const std::string& why() const { return searched_.why; }
  // The largest similarity that is too small for a match; NaN: none.
  double unmatched() const {
    const auto& ranked = searched_.ranked;
    return searched_.by == "meaning" ? ranked->unmatched : std::nan("");
  }

 private:
  // Removes what an earlier reading of the catalogue has left.
  void forget_earlier();

  const EditedCatalogue& data_;
  int64_t reading_ = 0;    // of views_ and facts_
  std::list<View> views_;  // the latest first; the windows of a page belong to one of them
  Facts facts_;
  struct {
    Query query;
    Ranked ranked;
    int64_t at = 0;
    Found found;
    std::string by, why;
  } searched_;
};

}  // namespace kinora::studio
