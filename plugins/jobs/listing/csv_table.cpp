#include "plugins/jobs/listing/csv_table.hpp"

#include <algorithm>
#include <csv.h>
#include <exception>
#include <new>
#include <utility>

#include <fmt/format.h>

#include "kinora/abi/base.h"
#include "kinora/error.hpp"

namespace kinora::core {
namespace {

struct Rows {
  const std::function<void(size_t, std::vector<std::string>)>& row;
  std::vector<std::string> fields;
  size_t number = 0;
  std::exception_ptr failure;  // libcsv is C: nothing may be thrown through it
};

void take_field(void* text, size_t size, void* rows) {
  auto& r = *static_cast<Rows*>(rows);
  try {
    if (!r.failure) r.fields.emplace_back(static_cast<const char*>(text), size);
  } catch (...) {
    r.failure = std::current_exception();
  }
}

void take_row(int, void* rows) {
  auto& r = *static_cast<Rows*>(rows);
  ++r.number;
  if (r.failure) return;
  try {
    r.row(r.number, std::exchange(r.fields, {}));
  } catch (...) {
    r.failure = std::current_exception();
  }
}

struct Parser {
  csv_parser it{};
  Parser() {
    if (csv_init(&it, CSV_STRICT | CSV_STRICT_FINI) != 0) throw std::bad_alloc();
    csv_set_space_func(&it, [](unsigned char) { return 0; });  // spaces are part of a field
  }
  Parser(const Parser&) = delete;
  Parser& operator=(const Parser&) = delete;
  ~Parser() { csv_free(&it); }
};

// libcsv has one error code for both quote errors; text that ends within quotes fails only at the end.
std::string csv_problem(csv_parser& parser, bool at_end) {
  const int error = csv_error(&parser);
  if (error != CSV_EPARSE) return csv_strerror(error);
  return std::string(at_end ? "a quote is not closed" : "a quote is not closed, or is inside a field") +
         "; put a field with quotes, commas or line ends in quotes, and double each quote in it";
}

bool is_blank(std::string_view lines) { return lines.find_first_not_of("\r\n") == std::string_view::npos; }

}  // namespace

// Feeds one line at a time, so that the first line of a broken record is known: reading resumes after that
// line.
void read_csv(std::string_view text, const std::function<void(size_t, std::vector<std::string>)>& row,
              const std::function<void(size_t, const std::string&)>& broken) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  Rows rows{row, {}, 0, nullptr};
  const auto after_line = [&](size_t at) { return std::min(text.find('\n', at), text.size() - 1) + 1; };
  for (size_t begin = 0; begin < text.size();) {
    Parser parser;
    bool sound = true;
    for (size_t at = begin; sound && at < text.size();) {
      const size_t size = after_line(at) - at, known = rows.number;
      sound = csv_parse(&parser.it, text.data() + at, size, take_field, take_row, &rows) == size;
      at += size;
      if (sound && (rows.number > known || is_blank(text.substr(begin, at - begin)))) begin = at;
    }
    if (sound && csv_fini(&parser.it, take_field, take_row, &rows) == 0) begin = text.size();
    if (rows.failure) std::rethrow_exception(rows.failure);
    if (begin == text.size()) break;
    rows.fields.clear();
    broken(++rows.number, csv_problem(parser.it, sound));
    begin = after_line(begin);
  }
}

std::string csv_line(const std::vector<std::string>& fields) {
  std::string out;
  for (const auto& field : fields) {
    std::string quoted(2 * field.size() + 2, '\0');
    quoted.resize(csv_write(quoted.data(), quoted.size(), field.data(), field.size()));
    out += (out.empty() ? "" : ",") + quoted;
  }
  return out + "\r\n";
}

namespace {

[[noreturn]] void refuse_head(const std::string& name, const std::string& why) {
  throw Error(KINORA_ERROR_DATA, name + ": line 1: " + why);
}

// Two columns with the same name would appear as one to a reader of rows. Spreadsheets leave nameless columns
// at the end.
void refuse_twice(const std::vector<std::string>& head, const std::string& name) {
  for (size_t i = 0; i < head.size(); ++i)
    if (const auto first = std::find(head.begin(), head.begin() + static_cast<ptrdiff_t>(i), head[i]);
        !head[i].empty() && first != head.begin() + static_cast<ptrdiff_t>(i))
      refuse_head(name, fmt::format("columns {} and {} are both called '{}'; rename or remove one of them",
                                    first - head.begin() + 1, i + 1, head[i]));
}

}  // namespace

std::string other_separator(const std::vector<std::string>& head) {
  for (const auto& [c, called] : {std::pair{';', "';'"}, {'\t', "tabs"}, {'|', "'|'"}})
    if (head.size() == 1 && head.front().find(c) != std::string::npos)
      return fmt::format(": the columns are separated by {}; separate them by ','", called);
  return "";
}

void read_csv_table(const std::string& text, const std::string& name,
                    const std::function<void(const std::vector<std::string>& columns)>& head,
                    const std::function<void(size_t number, nlohmann::json row)>& row,
                    const std::function<void(size_t number, const std::string& why)>& broken) {
  std::vector<std::string> columns;
  const auto take = [&](size_t number, std::vector<std::string> fields) {
    if (columns.empty()) {
      columns = std::move(fields);
      head(columns);
      return refuse_twice(columns, name);
    }
    if (fields.size() != columns.size())
      return broken(number, fmt::format("{} fields, but the first line names {} columns", fields.size(),
                                        columns.size()));
    nlohmann::json object = nlohmann::json::object();
    for (size_t i = 0; i < columns.size(); ++i)
      if (!fields[i].empty() && !object.emplace(columns[i], std::move(fields[i])).second)
        return broken(number,
                      fmt::format("two nameless columns have a value, the second is column {}; name them "
                                  "in the first line",
                                  i + 1));
    row(number, std::move(object));
  };
  read_csv(text, take, [&](size_t number, const std::string& why) {
    if (columns.empty()) throw Error(KINORA_ERROR_DATA, fmt::format("{}: record {}: {}", name, number, why));
    broken(number, why);
  });
}

}  // namespace kinora::core
