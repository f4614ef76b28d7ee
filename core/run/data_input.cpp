#include "core/run/data_input.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/suggest.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

class Reader {
 public:
  Reader(const Document& doc, const ResolvePath& resolve, std::vector<Diagnostic>& problems)
      : doc_(doc), resolve_(resolve), problems_(problems) {}

  // outer: the blend around it; null: there is none.
  DataInput read(const std::string& pointer, const json& table, const DataInput* outer) {
    DataInput out;
    if (!table.is_object()) {
      problem(doc_.value(pointer),
              "a part of a blend must be a table, as { path = \"shards/\", weight = 1 }");
      return out;
    }
    std::vector<std::string> known{"path", "blend", "shuffle"};
    if (outer) known.insert(known.end(), {"weight", "epochs"});
    const auto of_all = data_reading_keys();
    if (!outer) known.insert(known.end(), of_all.begin(), of_all.end());
    for (const auto& [key, value] : table.items())
      if (outer && std::find(of_all.begin(), of_all.end(), key) != of_all.end())
        problem(doc_.key(pointer + "/" + key),
                "'" + key + "' is of all data; give it at the top of the table");
      else if (std::find(known.begin(), known.end(), key) == known.end())
        problem(doc_.key(pointer + "/" + key), "unknown key '" + key + "'" + did_you_mean(key, known));
    out.shuffle = number(pointer, table, "shuffle", outer ? outer->shuffle : 0, true);
    if (outer) read_share(pointer, table, out);
    if (!outer) out.reading = read_data_reading(doc_, pointer, table, problems_);
    if (table.contains("path") == table.contains("blend"))
      problem(doc_.value(pointer), "expected either a path, of shards, or a blend, a list of parts");
    else if (table.contains("blend"))
      read_parts(pointer + "/blend", table.at("blend"), out);
    else
      read_path(pointer + "/path", table.at("path"), out);
    return out;
  }

 private:
  void problem(Location at, std::string message) { problems_.push_back({std::move(at), std::move(message)}); }

  template <class N>
  N number(const std::string& pointer, const json& table, const char* key, N fallback, bool may_be_zero) {
    if (!table.contains(key)) return fallback;
    const json& given = table.at(key);
    const bool is_whole = std::is_integral_v<N>;
    const double value = given.is_number() ? given.get<double>() : -1;
    const bool fits = (is_whole ? given.is_number_integer() : given.is_number()) && std::isfinite(value) &&
                      (may_be_zero ? value >= 0 : value > 0);
    if (fits) return given.get<N>();
    problem(doc_.value(pointer + "/" + key),
            std::string(key) + " = " + given.dump() + ": must be " + (is_whole ? "an integer" : "a number") +
                (may_be_zero ? " of at least 0" : " above 0; remove the part if it shall have no share"));
    return fallback;
  }

  void read_share(const std::string& pointer, const json& table, DataInput& out) {
    if (table.contains("weight") && table.contains("epochs"))
      problem(doc_.key(pointer + "/epochs"), "a part has a weight or epochs, not both; remove one");
    out.weight = number(pointer, table, "weight", 1.0, false);
    out.epochs = number(pointer, table, "epochs", 0.0, false);
  }

  void read_parts(const std::string& pointer, const json& parts, DataInput& out) {
    if (!parts.is_array() || parts.empty())
      return problem(doc_.value(pointer),
                     "'blend' must be a list of at least one part, as [{ path = \"a/\", weight = 3 }]");
    for (size_t i = 0; i < parts.size(); ++i)
      out.parts.push_back(read(pointer + "/" + std::to_string(i), parts[i], &out));
    const auto has_epochs = [](const DataInput& part) { return part.epochs > 0; };
    const auto with = std::count_if(out.parts.begin(), out.parts.end(), has_epochs);
    if (with != 0 && with != static_cast<std::ptrdiff_t>(out.parts.size()))
      problem(
          doc_.value(pointer),
          "some parts of the blend have epochs and others do not; give all of them epochs, or all a weight");
  }

  void read_path(const std::string& pointer, const json& path, DataInput& out) {
    if (!path.is_string() || path == "")
      return problem(doc_.value(pointer),
                     "'path' must be a path, a URI or the name of an earlier job, found " + path.dump());
    out.path = resolve_(doc_.value(pointer), path.get<std::string>());
  }

  const Document& doc_;
  const ResolvePath& resolve_;
  std::vector<Diagnostic>& problems_;
};

}  // namespace

json DataInput::identity() const {
  json out{{"weight", weight}, {"epochs", epochs}, {"shuffle", shuffle}, {"parts", json::array()}};
  for (const auto& part : parts) out["parts"].push_back(part.identity());
  return out;
}

DataInput read_data(const Document& doc, const std::string& pointer, const json& table,
                    const ResolvePath& resolve, std::vector<Diagnostic>& problems) {
  return Reader(doc, resolve, problems).read(pointer, table, nullptr);
}

}  // namespace kinora::core
