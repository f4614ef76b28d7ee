// Initialises parameters from weights that fit in part: from a smaller tokenizer, another text encoder, a
// longer context.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "core/torch/weights/weights.hpp"

namespace kinora::core {

// The outcome for one tensor.
struct PartialRow {
  enum Fate {
    taken,    // values from the file
    resized,  // same rank, other sizes: the common block is from the file, the rest is drawn
    fresh,    // not in the file, or of another rank there: drawn
    unused    // in the file only
  };
  std::string name;                     // the parameter's name; for an unused one, the name in the file
  std::vector<int64_t> shape, in_file;  // empty if it does not exist
  Fate fate;
};

struct PartialReport {
  std::vector<PartialRow> rows;  // parameters in the order of declaration, then the unused ones
  size_t count(PartialRow::Fate fate) const;
  // "12 taken, 1 resized, 2 new, 0 unused", then a line for each tensor that was not simply taken.
  std::string text() const;
};

struct PartialOptions {
  uint64_t seed = 0;  // seed of drawn values
  // Returns a parameter's name in the file. Null: the same name.
  std::function<std::string(const std::string&)> name_in_file;
};

// Initialises every parameter. Needs no communication: the result is the same at every topology. Throws
// Error(KINORA_ERROR_INVALID) if the file has nothing for any parameter; nothing is written then.
PartialReport load_partially(const Parameters&, const std::vector<Leaf>&,
                             const std::vector<std::string>& names, const Find& find,
                             const PartialOptions& options = {});
PartialReport load_partially(const Parameters&, const std::vector<Leaf>&, const NamedTensors&,
                             const PartialOptions& options = {});

// A name_in_file for lists that grew at their front: "PREFIXn." -> "PREFIX(n + by).". A negative index is in
// no file.
std::function<std::string(const std::string&)> shifted(std::string prefix, int64_t by);

}  // namespace kinora::core
