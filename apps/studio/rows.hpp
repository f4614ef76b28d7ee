// Lines about items become the rows and columns of a catalogue.
#pragma once
#include <functional>
#include <string_view>
#include <unordered_map>

#include "apps/studio/catalogue.hpp"

namespace kinora::studio {

// [owner-thread]
class Rows {
 public:
  // Where a line is.
  struct Line {
    size_t job = 0;
    uint64_t at = 0, size = 0;
    bool in_journal = false;
  };

  explicit Rows(Catalogue& out) : out_(out) {}
  // A line without its shots, which are long and not needed; `depth`: of the item in it, 1 if the line is the
  // item. Discarded if it is no JSON.
  static nlohmann::json parse(std::string_view line, int depth);

  // What is no item is counted as unreadable. A key that is known is this line's from now on.
  void add(const nlohmann::json& item, const Line& line);
  // Rows of the job for which `is_void` holds were none.
  void remove(size_t job, const std::function<bool(const Clip&)>& is_void);
  // Sorts them by job and key. Last of all.
  void finish();

 private:
  void numbers(const nlohmann::json& value, const std::string& name, size_t row, int depth);
  void set(const std::string& name, size_t row, double value);
  void sum_usage();

  Catalogue& out_;
  std::unordered_map<size_t, nlohmann::json> usage_;  // by row, of those that asked servers
  std::vector<bool> removed_;
};

}  // namespace kinora::studio
