// Fills a catalogue: turns lines about items into its rows and columns, then marks copies and tells videos of
// equal names apart. read_catalogue uses these parts in this order.
#pragma once
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "apps/studio/catalogue.hpp"

namespace kinora::studio {

// [owner-thread] Until finish() the rows have no order, columns may be shorter than the rows, and usage is
// empty.
class Rows {
 public:
  // Position of a line.
  struct Line {
    size_t job = 0;
    uint64_t at = 0, size = 0;
    bool in_record = false;
  };

  explicit Rows(Catalogue& out) : out_(out) {}
  // Parses a line without its shots, which are long and not needed; `depth`: of the item in the line, 1 if
  // the line is the item. Discarded if the line is not JSON.
  static nlohmann::json parse(std::string_view line, int depth);

  // A line that is not an item is counted as unreadable. A repeated key replaces the earlier line.
  void add(const nlohmann::json& item, const Line& line);
  // Marks what select jobs have left out of finished jobs, and adds their facts. Call this after all lines.
  void add_selections();
  // Sorts the rows by job and key. Call this last.
  void finish();

 private:
  void numbers(const nlohmann::json& value, const std::string& name, size_t row, int depth);
  void set(const std::string& name, size_t row, double value);
  void note_text(const std::string& text, const std::string& name, size_t row);
  void note_other(const nlohmann::json& value, const std::string& name, size_t row);
  void add_selections_of(size_t job);
  void sum_usage();

  Catalogue& out_;
  std::unordered_map<size_t, nlohmann::json> usage_;  // by row, for items that used servers
  std::set<std::string> not_texts_;  // facts that some clip has as no text and no plain number
};

// Finds the clips of a curate job that the dedup jobs of its run leave out as copies of others
// (decisions.jsonl). Fills copy_of, copy_rule and copy_score of clips that finished jobs have kept.
void mark_copies(Catalogue&);

// Changes if mark_copies would now mark other clips.
std::string copies_stamp(const std::vector<JobFolder>& jobs);

// Ends of the addresses of a job's videos whose file names are equal except for the ending, each with as many
// folders as are needed to tell them apart: {"clips/tape": "monday/tape.mp4", "clips/tape-2":
// "tuesday/tape.mp4"}. Keyed by id.
std::unordered_map<std::string, std::string> video_places(const Catalogue&);

}  // namespace kinora::studio
