#include "core/run/data_input.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/expression.hpp"
#include "core/base/suggest.hpp"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

using nlohmann::json;

// Whether it is a text that is not empty.
bool is_text(const json& value) {
  const auto* text = value.get_ptr<const std::string*>();
  return text && !text->empty();
}

class Reader {
 public:
  Reader(const Document& doc, const ResolvePath& resolve, const ReadSource& source,
         std::vector<Diagnostic>& problems)
      : doc_(doc), resolve_(resolve), source_(source), problems_(problems) {}

  // outer: the blend around it; null: there is none.
  DataInput read(const std::string& pointer, const json& table, const DataInput* outer) {
    DataInput out;
    if (!table.is_object()) {
      problem(doc_.value(pointer),
              "a part of a blend must be a table, as { path = \"shards/\", weight = 1 }");
      return out;
    }
    std::vector<std::string> known{"path", "source", "blend", "shuffle", "part", "where", "join"};
    if (outer) known.insert(known.end(), {"weight", "epochs"});
    const auto of_all = data_reading_keys();
    known.insert(known.end(), of_all.begin(), of_all.end());
    refuse_unknown(pointer, table, known);
    out.shuffle = number(pointer, table, "shuffle", outer ? outer->shuffle : 0, true);
    if (outer) read_share(pointer, table, out);
    if (!outer) out.reading = read_data_reading(doc_, pointer, table, problems_);
    for (const auto& key : of_all)
      if (outer && table.contains(key))
        problem(doc_.key(pointer + "/" + key),
                "'" + key + "' is of all data; give it at the top of the table");
    if (table.contains("path") == table.contains("blend"))
      problem(doc_.value(pointer), "expected either a path, of shards, or a blend, a list of parts");
    else if (table.contains("blend"))
      read_blend(pointer, table, out);
    else
      read_set(pointer, table, out);
    return out;
  }

 private:
  void problem(Location at, std::string message) { problems_.push_back({std::move(at), std::move(message)}); }

  void refuse_unknown(const std::string& pointer, const json& table, const std::vector<std::string>& known) {
    for (const auto& [key, value] : table.items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        problem(doc_.key(pointer + "/" + key), "unknown key '" + key + "'" + did_you_mean(key, known));
  }

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

  void read_blend(const std::string& pointer, const json& table, DataInput& out) {
    for (const char* key : {"source", "part", "where", "join"})
      if (table.contains(key))
        problem(
            doc_.key(pointer + "/" + key),
            std::string("'") + key + "' belongs to a set; write it in each part of the blend that it is for");
    read_parts(pointer + "/blend", table.at("blend"), out);
  }

  void read_set(const std::string& pointer, const json& table, DataInput& out) {
    out.path = path(pointer + "/path", table.at("path"));
    if (table.contains("source")) out.source = source_(pointer + "/source", table.at("source"));
    if (table.contains("part")) out.part = part(pointer + "/part", table.at("part"));
    if (table.contains("where")) out.where = where(pointer + "/where", table.at("where"));
    if (!table.contains("join")) return;
    const json& joins = table.at("join");
    std::set<std::string> taken;
    if (!joins.is_array()) return read_join(pointer + "/join", joins, taken, out);
    for (size_t i = 0; i < joins.size(); ++i)
      read_join(pointer + "/join/" + std::to_string(i), joins[i], taken, out);
  }

  std::pair<double, double> part(const std::string& pointer, const json& given) {
    if (given.is_array() && given.size() == 2 && given[0].is_number() && given[1].is_number()) {
      const double from = given[0].get<double>(), to = given[1].get<double>();
      if (0 <= from && from < to && to <= 1) return {from, to};
    }
    problem(doc_.value(pointer),
            "part = " + given.dump() + ": must be two numbers from 0 to 1, the smaller first, as [0.0, 0.9]");
    return {0, 1};
  }

  std::string where(const std::string& pointer, const json& given) {
    if (!given.is_string()) {
      problem(doc_.value(pointer),
              "'where' must be a text such as \"duration_s > 2\", found " + given.dump());
      return "";
    }
    try {
      Expression::parse(given.get<std::string>());
    } catch (const Error& e) {
      problem(doc_.value(pointer), std::string("where: ") + e.what());
    }
    return given.get<std::string>();
  }

  // taken: fields of the joins before it.
  void read_join(const std::string& pointer, const json& table, std::set<std::string>& taken,
                 DataInput& out) {
    constexpr const char* kExample = "a table such as { path = \"captions/\", fields = [\"txt\"] }";
    if (!table.is_object())
      return problem(doc_.value(pointer), std::string("'join' must be ") + kExample + ", or a list of them");
    refuse_unknown(pointer, table, {"path", "fields"});
    const json fields = table.value("fields", json());
    if (!table.contains("path") || !fields.is_array() || fields.empty() ||
        !std::all_of(fields.begin(), fields.end(), is_text))
      return problem(doc_.value(pointer),
                     std::string("'join' needs a path and the fields that are taken, as in ") + kExample);
    DataJoin join{path(pointer + "/path", table.at("path")), fields.get<std::vector<std::string>>()};
    for (const auto& field : join.fields)
      if (!taken.insert(field).second)
        problem(doc_.value(pointer + "/fields"), "the field '" + field + "' is taken twice; remove one");
    out.joins.push_back(std::move(join));
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

  // "" after a problem.
  std::string path(const std::string& pointer, const json& given) {
    if (is_text(given)) return resolve_(doc_.value(pointer), given.get<std::string>());
    problem(doc_.value(pointer),
            "'path' must be a path, a URI or the name of an earlier job, found " + given.dump());
    return "";
  }

  const Document& doc_;
  const ResolvePath& resolve_;
  const ReadSource& source_;
  std::vector<Diagnostic>& problems_;
};

}  // namespace

json DataInput::identity() const {
  json out{{"weight", weight}, {"epochs", epochs}, {"shuffle", shuffle}, {"parts", json::array()}};
  for (const auto& one : parts) out["parts"].push_back(one.identity());
  if (part != std::pair<double, double>{0, 1}) out["part"] = part;
  if (!where.empty()) out["where"] = where;
  if (source) out["source"] = source->identity();
  for (const auto& join : joins) out["join"].push_back(join.fields);
  return out;
}

DataInput read_data(const Document& doc, const std::string& pointer, const json& table,
                    const ResolvePath& resolve, const ReadSource& source, std::vector<Diagnostic>& problems) {
  return Reader(doc, resolve, source, problems).read(pointer, table, nullptr);
}

}  // namespace kinora::core
