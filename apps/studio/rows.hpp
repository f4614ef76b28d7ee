// Turns lines about items into the rows and columns of a catalogue.
#pragma once
#include <string_view>
#include <unordered_map>

#include "apps/studio/catalogue.hpp"

namespace kinora::studio {

// [owner-thread]
class Rows {
 public:
  // Position of a line.
  struct Line {
    size_t job = 0;
    uint64_t at = 0, size = 0;
    bool in_record = false;
  };

  explicit Rows(Catalogue& out) : out_(out) {}
  // Parses a line without its shots, which are long and not needed; `depth`: of the item in the line, 1 if the line is the
  // item. Discarded if the line is not JSON.
  static nlohmann::json parse(std::string_view line, int depth);

  // A line that is not an item is counted as unreadable. A repeated key replaces the earlier line.
  void add(const nlohmann::json& item, const Line& line);
  // Sorts the rows by job and key. Call this last.
  void finish();

 private:
  void numbers(const nlohmann::json& value, const std::string& name, size_t row, int depth);
  void set(const std::string& name, size_t row, double value);
  void sum_usage();

  Catalogue& out_;
  std::unordered_map<size_t, nlohmann::json> usage_;  // by row, for items that used servers
};

}  // namespace kinora::studio
