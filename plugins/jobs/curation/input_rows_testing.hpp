// Inputs of tests as rows, and back.
#pragma once
#include <filesystem>
#include <vector>

#include "plugins/jobs/curation/record.hpp"

namespace kinora::core {

inline std::vector<Input> all_of(const InputRows& rows) {
  std::vector<Input> out;
  rows.each([&](size_t, const Input& input) { out.push_back(input); });
  return out;
}

struct RowsOf {
  explicit RowsOf(const std::vector<Input>& inputs) {
    for (const Input& input : inputs) rows.add(input);
  }
  InputRows rows;
};

// The record of these inputs, which get their keys.
class RecordOf : public RowsOf, public Record {
 public:
  RecordOf(const std::filesystem::path& folder, std::vector<Input>& inputs, const Record::Options& options)
      : RowsOf(inputs), Record(folder, rows, options) {
    inputs = all_of(rows);
  }
};

}  // namespace kinora::core
