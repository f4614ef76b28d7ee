// Which clips are shown, in which order, and how their numbers are distributed: pure functions.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "apps/studio/catalogue.hpp"
#include "plugins/jobs/curation/edits.hpp"

namespace kinora::studio {

using core::Change;

// From low on and below high; high itself too where no clip has more.
struct Range {
  double low, high;
};

struct Query {
  std::set<std::string> ends, rules;    // ends: kept, filtered, failed, copy; empty: all
  std::set<std::string> decisions;      // accepted, rejected, captioned, open; empty: all
  std::map<std::string, Range> ranges;  // by column
  std::string film, text;
  std::string like, embedding;  // the id of a clip, and the embedding in which others are to be near to it
  bool words = false;           // the text is looked for by its words, not by its meaning
  bool copies = false;          // what a dedup job leaves out is shown too
  std::string sort;  // a column, "similarity", "key", "caption"; "": the best found first, else by key
  bool descending = false;

  bool searches() const { return !text.empty() || !like.empty(); }
};

// The number that a search gives clips: it is sorted, bounded and shown as a column is.
constexpr const char* kSimilarity = "similarity";

// "end=kept&rule=filter.blur&range=duration_s:2:5&q=boat&sort=duration_s&desc=1", already split. Other names
// are left alone. Throws Error KINORA_INVALID.
Query parse_query(const std::multimap<std::string, std::string>& parameters);

// The edits of a clip by now.
using EditsOf = std::function<Change(const Clip&)>;

struct Found {
  std::vector<size_t> clips;       // places, best first
  std::vector<double> similarity;  // of every clip of the catalogue, NaN: it has none. Empty: found by words
};

struct Shelf {
  const Catalogue& catalogue;
  EditsOf edits;
  const Found* found = nullptr;  // of a query that searches

  // The values of a column, one a clip; null: no clip has this number.
  const std::vector<double>* column(const std::string& name) const;
};

// The clip's values without edits, and with them.
Change own_values(const Clip&);
Change values_now(const Clip&, const Change& edits);
// "accepted", "rejected" or "": what a user decided.
std::string decision_of(const Change& edits);

// Places in catalogue.clips. Films that were cut into clips are left out, and copies unless they are asked
// for: by `copies`, by their outcome or rule, as the clip that others are to be like, or since a user
// accepted them.
std::vector<size_t> select(const Shelf&, const Query&);

struct Histogram {
  std::string field;
  double low = 0, high = 0;         // of the first and the last bar
  bool whole = false;               // a bar is one whole number
  std::vector<int64_t> all, shown;  // clips a bar; shown: those that every other condition leaves
};

// One for every column that has at least two values, scores first. At most `bars` bars.
std::vector<Histogram> histograms(const Shelf&, const Query&, size_t bars = 24);

// How many items have each outcome, rule and decision, whatever the query. A copy that nobody accepted counts
// as an outcome and for its rule alone.
struct Counts {
  std::map<std::string, int64_t> ends, rules, decisions;
};
enum class Kind : uint8_t { any, film };
Counts counts_of(const Shelf&, Kind kind = Kind::any);

}  // namespace kinora::studio
