// The page's view of a catalogue: selects, orders and searches clips, computes the distributions of their
// numbers, and lays out the shots of a video. Pure functions.
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

// low <= x < high; high itself is included if no clip has a larger value.
struct Range {
  double low, high;
};

// -infinity if there is none.
double largest_of(const std::vector<double>& values);

struct Query {
  std::set<std::string> ends, rules;  // ends: kept, filtered, failed, copy, unchosen; empty: all
  // video: input videos, also those that clips are shown of instead; clip: what is none, with copies; empty: all
  std::set<std::string> kinds;
  std::set<std::string> decisions;      // accepted, rejected, captioned, open; empty: all
  std::set<std::string> tags;           // a clip has at least one of them; empty: all
  std::map<std::string, Range> ranges;  // by column
  std::string video, text;
  std::string where;            // a condition on the clip's facts (core/base/expression.hpp)
  std::string like, embedding;  // id of a clip, and the embedding in which others are compared with it
  bool words = false;           // search the text by words, not by meaning
  bool copies = false;          // also show clips that a dedup job leaves out
  std::string
      sort;  // a column, "similarity", "key", "caption"; "": best match first, without a search by key
  bool descending = false;

  bool searches() const { return !text.empty() || !like.empty(); }
};

// The number that a search gives each clip. It can be sorted, bounded and shown like a column.
constexpr const char* kSimilarity = "similarity";

// The parameters of a request's address.
using Parameters = std::multimap<std::string, std::string>;
// The first value of this name; "": none.
std::string text_of(const Parameters&, const char* name);
// The same as an integer of at least 0. Throws Error KINORA_ERROR_INVALID.
int64_t whole_of(const Parameters&, const char* name, int64_t otherwise);

// Parses "end=kept&rule=filter.blur&range=duration_s:2:5&q=boat&sort=duration_s&desc=1", already split. Other
// names are ignored. Throws Error KINORA_ERROR_INVALID.
Query parse_query(const Parameters& parameters);

// Returns a clip's current edits.
using EditsOf = std::function<Change(const Clip&)>;

struct Found {
  std::vector<size_t> clips;       // indices, best first
  std::vector<double> similarity;  // of every clip of the catalogue; NaN: none. Empty: found by words
};

// The clips that a query selects from. Refers to the catalogue and the search's result, which must outlive
// it.
struct QueryScope {
  const Catalogue& catalogue;
  EditsOf edits;
  const Found* found = nullptr;                 // result of the query's search
  std::function<bool(size_t clip)> holds = {};  // the query's `where`, parsed; empty: there is none

  // The values of a column, one per clip; null: no clip has this number.
  const std::vector<double>* column(const std::string& name) const;
};

// The clip's values without edits, and with them.
Change own_values(const Clip&);
Change values_now(const Clip&, const Change& edits);
// A user's decision: "accepted", "rejected" or "".
std::string decision_of(const Change& edits);

// Indices into catalogue.clips. Input videos that were cut into clips are left out. Copies are left out
// unless the query asks for them (by `copies`, by outcome or rule, or as the clip that others are compared
// with) or a user accepted them.
std::vector<size_t> select(const QueryScope&, const Query&);

struct Histogram {
  std::string field;
  double low = 0, high = 0;         // bounds of the first and the last bar
  bool whole = false;               // each bar is one integer
  std::vector<int64_t> all, shown;  // clips per bar; shown: clips that meet every other condition
  // Where the bars of a logarithmic histogram begin, and where the last ends; empty: they have one width.
  std::vector<double> edges;
};

// One histogram per column with at least two values, scores first. At most `bars` bars. Positive values of which more
// than half are in the first eighth of a range of two decades or more are shown on a logarithmic scale.
std::vector<Histogram> histograms(const QueryScope&, const Query&, size_t bars = 24);

// Number of items per outcome, rule, decision, tag and value of a facet, whatever the query. A copy that no user
// accepted counts only in its outcome and its rule.
struct Counts {
  std::map<std::string, int64_t> ends, rules, decisions, tags;
  std::map<std::string, std::map<std::string, int64_t>> facets;  // by fact
  int64_t kept_rejected = 0;  // of the kept ones, those that people rejected
  // The items that people review: the kept ones, and others that they have decided about.
  int64_t to_review = 0, accepted = 0, rejected = 0;
};
enum class Kind : uint8_t { any, video };
Counts counts_of(const QueryScope&, Kind kind = Kind::any);

// The first of `rows` from place `from` on, else from the start, that is kept and that nobody has decided about; -1:
// none.
int64_t next_to_review(const QueryScope&, const std::vector<size_t>& rows, size_t from);

// Clips found by words, best first, as indices. Every word of the text must begin a word of the clip's
// caption, key or reason, ignoring case. Whole words count twice as much as beginnings, and rare words more
// than common ones (inverse document frequency); ties are in the catalogue's order.
std::vector<size_t> search_words(const Catalogue&, const EditsOf&, const std::string& text);

// The shots of one video with the outcomes of their clips: {"video", "fps", "frames", "length_s", "shots":
// [{"first", "end", "start_s", "end_s", "clips": [{"id", "end", "decision"}]}], "curve": [largest cut score
// in each of at most 600 equal parts]}. A shot is frames first to end - 1; a clip belongs to the shot that
// contains its first frame. Without shots, each clip counts as one. `video`: the video's line, null if there
// is none.
nlohmann::json timeline(const Catalogue&, const EditsOf&, size_t job, const std::string& video,
                        const nlohmann::json& line);

}  // namespace kinora::studio
