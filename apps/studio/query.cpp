#include "apps/studio/query.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <numeric>

#include "core/base/status.hpp"
#include "plugins/jobs/curation/log_scale.hpp"

namespace kinora::studio {
namespace {

double number(std::string_view text, const std::string& whole) {
  double out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(out))
    throw Error(KINORA_ERROR_INVALID, "range=" + whole + ": expected range=FIELD:LOW:HIGH with two numbers");
  return out;
}

void add_range(const std::string& text, Query& query) {
  const auto second = text.rfind(':');
  const auto first = second == text.npos || second == 0 ? text.npos : text.rfind(':', second - 1);
  if (first == text.npos || first == 0)
    throw Error(KINORA_ERROR_INVALID, "range=" + text + ": expected range=FIELD:LOW:HIGH");
  const std::string_view all = text;
  query.ranges[text.substr(0, first)] = {number(all.substr(first + 1, second - first - 1), text),
                                         number(all.substr(second + 1), text)};
}

bool holds(const Range& range, double value, double largest) {
  return value >= range.low && (value < range.high || (value == range.high && value == largest));
}

bool matches_decision(const std::set<std::string>& wanted, const Clip& clip, const Change& edits) {
  if (wanted.empty()) return true;
  const std::string decision = decision_of(edits);
  const bool captioned = edits.caption && *edits.caption != clip.caption;
  return (!decision.empty() && wanted.contains(decision)) || (captioned && wanted.contains("captioned")) ||
         (decision.empty() && !captioned && wanted.contains("open"));
}

bool has_tag(const std::set<std::string>& wanted, const Clip& clip, const Change& edits) {
  const auto& tags = edits.tags ? *edits.tags : clip.tags;
  return wanted.empty() ||
         std::any_of(tags.begin(), tags.end(), [&](const auto& tag) { return wanted.contains(tag); });
}

// Calls f with the rules by which the clip was left out: of its dedup job or its stage, and the names of select jobs.
template <class F>
void each_rule(const Catalogue& catalogue, const Clip& clip, const F& f) {
  if (!clip.copy_rule.empty())
    f(clip.copy_rule);
  else if (clip.end == End::filtered)
    f(clip.reason);
  for (const auto& one : clip.left_out) f(catalogue.choosers[one.by].name);
}

bool has_rule(const Catalogue& catalogue, const Clip& clip, const std::set<std::string>& wanted) {
  bool out = wanted.empty();
  if (!out) each_rule(catalogue, clip, [&](const std::string& rule) { out = out || wanted.contains(rule); });
  return out;
}

bool is_hidden(const Query& query, const Clip& clip, const Change& edits) {
  return !clip.copy_rule.empty() && !query.copies && !query.ends.contains("copy") &&
         !query.kinds.contains("clip") && !query.rules.contains(clip.copy_rule) && query.like != clip.id &&
         edits.keep != true;
}

bool has_kind(const std::set<std::string>& wanted, const Clip& clip) {
  if (clip.is_video && wanted.contains("video")) return true;
  return !clip.consumed && (wanted.empty() || (!clip.is_video && wanted.contains("clip")));
}

// True if the clip meets all conditions except ranges, text and `where`.
bool matches(const Catalogue& catalogue, const Query& query, const Clip& clip, const Change& edits) {
  return has_kind(query.kinds, clip) && !is_hidden(query, clip, edits) &&
         (query.ends.empty() || query.ends.contains(outcome_of(clip))) &&
         has_rule(catalogue, clip, query.rules) &&
         (query.video.empty() || clip.video == query.video || clip.key == query.video) &&
         matches_decision(query.decisions, clip, edits) && has_tag(query.tags, clip, edits);
}

// One condition on a column, prepared for testing every clip.
struct Bound {
  const std::vector<double>* values;  // null: no clip has this number
  Range range;
  double largest;
  bool operator()(size_t clip) const { return values && holds(range, (*values)[clip], largest); }
};

std::map<std::string, Bound> bounds(const QueryScope& scope, const Query& query) {
  std::map<std::string, Bound> out;
  for (const auto& [name, range] : query.ranges) {
    const auto* values = scope.column(name);
    out[name] = {values, range, values ? largest_of(*values) : 0};
  }
  return out;
}

// The clips that meet all conditions except the ranges, by relevance if there is a text.
std::vector<size_t> candidates(const QueryScope& scope, const Query& query) {
  std::vector<size_t> all;
  if (query.searches() && scope.found) {
    all = scope.found->clips;
  } else {
    all.resize(scope.catalogue.clips.size());
    std::iota(all.begin(), all.end(), size_t{0});
  }
  std::erase_if(all, [&](size_t i) {
    const Clip& clip = scope.catalogue.clips[i];
    return !matches(scope.catalogue, query, clip, scope.edits(clip)) || (scope.holds && !scope.holds(i));
  });
  return all;
}

void sort_by_column(const std::vector<double>& values, bool descending, std::vector<size_t>& rows) {
  std::stable_sort(rows.begin(), rows.end(), [&](size_t a, size_t b) {
    const double x = values[a], y = values[b];
    if (std::isnan(x) || std::isnan(y))
      return !std::isnan(x) && std::isnan(y);  // clips without the value are last
    return descending ? x > y : x < y;
  });
}

void sort_rows(const QueryScope& scope, const Query& query, std::vector<size_t>& rows) {
  const auto& clips = scope.catalogue.clips;
  if (const auto* values = scope.column(query.sort)) {
    sort_by_column(*values, query.descending, rows);
  } else if (query.sort == "caption") {
    std::vector<std::string> captions(clips.size());
    for (const size_t i : rows) captions[i] = scope.edits(clips[i]).caption.value_or(clips[i].caption);
    std::stable_sort(rows.begin(), rows.end(), [&](size_t a, size_t b) {
      return query.descending ? captions[a] > captions[b] : captions[a] < captions[b];
    });
  } else if (query.sort == "key" || (query.sort.empty() && !query.searches())) {
    std::sort(rows.begin(), rows.end());  // the catalogue is sorted by key
    if (query.descending) std::reverse(rows.begin(), rows.end());
  } else if (!query.sort.empty() && query.sort != kSimilarity) {
    throw Error(KINORA_ERROR_INVALID, "sort=" + query.sort + ": no clip has this number");
  }
}

Histogram empty_histogram(const std::string& field, const std::vector<double>& values, size_t bars) {
  Histogram out{field, INFINITY, -INFINITY, true, {}, {}, {}};
  for (const double v : values) {
    if (std::isnan(v)) continue;
    out.low = std::min(out.low, v);
    out.high = std::max(out.high, v);
    out.whole = out.whole && v == std::floor(v);
  }
  if (!(out.low < out.high)) return out;
  out.whole = out.whole && out.high - out.low < static_cast<double>(bars);
  if (out.whole) out.high += 1;
  const size_t n = out.whole ? static_cast<size_t>(out.high - out.low) : bars;
  out.all.assign(n, 0);
  out.shown.assign(n, 0);
  if (const double least = out.whole ? 0 : core::least_of_skewed(values, out.low, out.high); least > 0)
    out.edges = core::log_edges(out.low, least, out.high, n);
  return out;
}

size_t bar_of(const Histogram& h, double value) {
  if (!h.edges.empty())
    return static_cast<size_t>(std::upper_bound(h.edges.begin() + 1, h.edges.end() - 1, value) -
                               h.edges.begin()) -
           1;
  const auto n = static_cast<double>(h.all.size());
  return static_cast<size_t>(std::clamp(std::floor((value - h.low) / (h.high - h.low) * n), 0.0, n - 1));
}

bool is_kept(const Clip& clip) {
  return clip.end == End::kept && !clip.consumed && clip.copy_rule.empty() && clip.is_chosen;
}

bool is_score(const std::string& field) { return field.starts_with("scores."); }

}  // namespace

const std::vector<double>* QueryScope::column(const std::string& name) const {
  if (name == kSimilarity) return found && !found->similarity.empty() ? &found->similarity : nullptr;
  const auto at = catalogue.columns.find(name);
  return at == catalogue.columns.end() ? nullptr : &at->second;
}

double largest_of(const std::vector<double>& values) {
  double out = -INFINITY;
  for (const double v : values) out = v > out ? v : out;  // false for NaN
  return out;
}

std::string text_of(const Parameters& p, const char* name) {
  const auto at = p.find(name);
  return at == p.end() ? "" : at->second;
}

int64_t whole_of(const Parameters& p, const char* name, int64_t otherwise) {
  const std::string text = text_of(p, name);
  int64_t out = otherwise;
  if (text.empty()) return out;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || out < 0)
    throw Error(KINORA_ERROR_INVALID, std::string(name) + "=" + text + ": expected an integer of at least 0");
  return out;
}

Query parse_query(const Parameters& parameters) {
  Query out;
  for (const auto& [name, value] : parameters) {
    if (name == "end") out.ends.insert(value);
    if (name == "rule") out.rules.insert(value);
    if (name == "kind") out.kinds.insert(value);
    if (name == "decision") out.decisions.insert(value);
    if (name == "tag") out.tags.insert(value);
    if (name == "where") out.where = value;
    if (name == "range") add_range(value, out);
    if (name == "video") out.video = value;
    if (name == "q") out.text = value;
    if (name == "like") out.like = value;
    if (name == "embedding") out.embedding = value;
    if (name == "by") out.words = value == "words";
    if (name == "copies") out.copies = value == "1";
    if (name == "sort") out.sort = value;
    if (name == "desc") out.descending = value == "1";
  }
  return out;
}

Change own_values(const Clip& clip) { return {clip.caption, "", clip.end == End::kept, clip.tags}; }

Change values_now(const Clip& clip, const Change& edits) { return overlaid(own_values(clip), edits); }

std::string decision_of(const Change& edits) {
  return !edits.keep ? "" : *edits.keep ? "accepted" : "rejected";
}

std::vector<size_t> select(const QueryScope& scope, const Query& query) {
  std::vector<size_t> rows = candidates(scope, query);
  const auto conditions = bounds(scope, query);
  std::erase_if(rows, [&](size_t i) {
    return std::any_of(conditions.begin(), conditions.end(), [&](const auto& c) { return !c.second(i); });
  });
  sort_rows(scope, query, rows);
  return rows;
}

std::vector<Histogram> histograms(const QueryScope& scope, const Query& query, size_t bars) {
  const Catalogue& catalogue = scope.catalogue;
  std::vector<bool> passes(catalogue.clips.size(), false);
  for (const size_t i : candidates(scope, query)) passes[i] = true;
  const auto conditions = bounds(scope, query);
  std::vector<size_t> broken(catalogue.clips.size(), 0);  // number of ranges that the clip is outside of
  for (const auto& [name, holds_for] : conditions)
    for (size_t i = 0; i < broken.size(); ++i) broken[i] += !holds_for(i);

  std::vector<Histogram> out;
  const auto add = [&](const std::string& name, const std::vector<double>& values) {
    Histogram h = empty_histogram(name, values, bars);
    if (h.all.empty()) return;
    const auto own = conditions.find(name);
    for (size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i])) continue;
      const size_t bar = bar_of(h, values[i]);
      ++h.all[bar];
      const size_t others = broken[i] - (own != conditions.end() && !own->second(i));
      h.shown[bar] += passes[i] && others == 0;
    }
    out.push_back(std::move(h));
  };
  if (const auto* similarity = scope.column(kSimilarity)) add(kSimilarity, *similarity);
  const auto first = static_cast<ptrdiff_t>(out.size());
  for (const auto& [name, values] : catalogue.columns) add(name, values);
  std::stable_partition(out.begin() + first, out.end(), [](const Histogram& h) { return is_score(h.field); });
  return out;
}

namespace {

// Counts the values of facets, clip by clip.
class FacetCounts {
 public:
  explicit FacetCounts(const Catalogue& catalogue) {
    for (const auto& [name, facet] : catalogue.facets)
      if (!facet.is_of_many) all_.push_back({&name, &facet, {}});
  }
  void add(size_t clip) {
    for (auto& one : all_) ++one.clips[one.facet->of[clip]];
  }
  auto by_fact() const {
    std::map<std::string, std::map<std::string, int64_t>> out;
    for (const auto& one : all_)
      for (size_t i = 0; i < one.facet->values.size(); ++i)
        if (one.clips[i + 1] > 0) out[*one.name][one.facet->values[i]] = one.clips[i + 1];
    return out;
  }

 private:
  struct One {
    const std::string* name;
    const Facet* facet;
    std::array<int64_t, Facet::kMost + 1> clips;  // by place in its values, from 1
  };
  std::vector<One> all_;
};

}  // namespace

Counts counts_of(const QueryScope& scope, Kind kind) {
  Counts out;
  FacetCounts facets(scope.catalogue);
  for (size_t i = 0; i < scope.catalogue.clips.size(); ++i) {
    const Clip& clip = scope.catalogue.clips[i];
    if (clip.consumed || (kind == Kind::video && !clip.is_video)) continue;
    ++out.ends[outcome_of(clip)];
    each_rule(scope.catalogue, clip, [&](const std::string& rule) { ++out.rules[rule]; });
    const Change edits = scope.edits(clip);
    out.kept_rejected += edits.keep == false && is_kept(clip);
    if (is_hidden({}, clip, edits)) continue;
    const std::string decision = decision_of(edits);
    const bool captioned = edits.caption && *edits.caption != clip.caption;
    out.to_review += is_kept(clip) || !decision.empty();
    out.accepted += decision == "accepted";
    out.rejected += decision == "rejected";
    for (const auto& tag : edits.tags ? *edits.tags : clip.tags) ++out.tags[tag];
    if (!decision.empty()) ++out.decisions[decision];
    if (captioned) ++out.decisions["captioned"];
    if (decision.empty() && !captioned) ++out.decisions["open"];
    facets.add(i);
  }
  out.facets = facets.by_fact();
  return out;
}

int64_t next_to_review(const QueryScope& scope, const std::vector<size_t>& rows, size_t from) {
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t place = (from + i) % rows.size();
    const Clip& clip = scope.catalogue.clips[rows[place]];
    if (is_kept(clip) && !scope.edits(clip).keep) return static_cast<int64_t>(place);
  }
  return -1;
}

namespace {

// Runs of letters, digits and non-ASCII bytes, in lower case.
std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> out(1);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 128 || std::isalnum(byte)) {
      out.back() += static_cast<char>(std::tolower(byte));
    } else if (!out.back().empty()) {
      out.emplace_back();
    }
  }
  if (out.back().empty()) out.pop_back();
  return out;
}

// 2: a whole word of the clip; 1: the beginning of a word; 0: no match.
int match(const std::string& word, const std::vector<std::string>& words) {
  int best = 0;
  for (const auto& other : words)
    if (other.starts_with(word)) best = std::max(best, other.size() == word.size() ? 2 : 1);
  return best;
}

}  // namespace

std::vector<size_t> search_words(const Catalogue& catalogue, const EditsOf& edits, const std::string& text) {
  const auto wanted = words_of(text);
  struct Hit {
    size_t clip;
    std::vector<int> matches;
    double rank = 0;
  };
  std::vector<Hit> hits;
  std::vector<double> found(wanted.size(), 0);  // number of clips that contain the word
  for (size_t i = 0; i < catalogue.clips.size(); ++i) {
    const Clip& clip = catalogue.clips[i];
    const Change change = edits(clip);
    const auto words = words_of(change.caption.value_or(clip.caption) + " " + clip.key + " " + clip.reason +
                                " " + change.reason.value_or(""));
    Hit hit{i, {}, 0};
    for (const auto& word : wanted) hit.matches.push_back(match(word, words));
    for (size_t w = 0; w < wanted.size(); ++w) found[w] += hit.matches[w] > 0;
    if (std::find(hit.matches.begin(), hit.matches.end(), 0) == hit.matches.end())
      hits.push_back(std::move(hit));
  }
  for (auto& hit : hits)
    for (size_t w = 0; w < wanted.size(); ++w)
      hit.rank += hit.matches[w] * std::log(1 + static_cast<double>(catalogue.clips.size()) / found[w]);
  std::stable_sort(hits.begin(), hits.end(), [](const Hit& a, const Hit& b) { return a.rank > b.rank; });
  std::vector<size_t> out;
  for (const auto& hit : hits) out.push_back(hit.clip);
  return out;
}

}  // namespace kinora::studio
