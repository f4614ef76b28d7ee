// The data of a job that trains, when its `input` is a table: a set of shards, or a blend of several.
//
//   input = { path = "shards/", shuffle = 1000 }
//   input = { blend = [{ path = "a/", weight = 3 }, { path = "s3://bucket/b", weight = 1 }], shuffle = 1000 }
//   input = { path = "shards/", part = [0.0, 0.9], where = "scores.filter.blur >= 20",
//             join = { path = "captions/", fields = ["txt"] } }
//   input = { source = "acme.table", path = "clips.table" }
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "core/config/document.hpp"
#include "core/run/data_reading.hpp"
#include "core/run/data_source.hpp"

namespace kinora::core {

// Fields that the samples of a set take from those with the same keys in other shards.
struct DataJoin {
  std::string path{};  // as that of a set
  std::vector<std::string> fields{};
};

struct DataInput {
  std::string path;                            // of a set: absolute path, pattern or URI
  std::shared_ptr<const DataSource> source{};  // that gives the samples of the path; null: shards
  std::vector<DataInput> parts;                // of a blend: at least one
  double weight = 1;                           // share in the blend around it, relative to the other parts
  double epochs = 0;    // instead of a weight: how often one pass of the blend takes each sample; 0: none
  int64_t shuffle = 0;  // samples of a set that are shuffled together; 0: none
  // A set takes the samples whose hash_share() of the key is in [part.first, part.second), and of these the ones
  // for whose facts the expression `where` holds ("": all).
  std::pair<double, double> part{0, 1};
  std::string where{};
  std::vector<DataJoin> joins{};
  DataReading reading;  // of the whole table; unused in a part of a blend

  bool is_blend() const { return path.empty(); }
  // Everything but the files that a result depends on; it is part of a job's identity.
  nlohmann::json identity() const;
};

// Resolves the path or the name of a job that a set names; returns "" after it has reported a problem.
using ResolvePath = std::function<std::string(const Location&, const std::string&)>;

// Reads the table at `pointer`. Problems are added with the places of the values at fault.
DataInput read_data(const Document& doc, const std::string& pointer, const nlohmann::json& table,
                    const ResolvePath& resolve, const ReadSource& source, std::vector<Diagnostic>& problems);

}  // namespace kinora::core
