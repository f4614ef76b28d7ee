#include "core/curate/csv.hpp"

#include <csv.h>

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

}  // namespace

void read_csv(std::string_view text, const std::string& name,
              const std::function<void(size_t, std::vector<std::string>)>& row) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  Rows rows{row, {}, 0, nullptr};
  Parser parser;
  const size_t read = csv_parse(&parser.it, text.data(), text.size(), take_field, take_row, &rows);
  const bool whole =
      read == text.size() && csv_fini(&parser.it, take_field, take_row, &rows) == 0;
  if (rows.failure) std::rethrow_exception(rows.failure);
  if (!whole)
    throw Error(KINORA_DATA, fmt::format("{}: record {}: {}; a field with quotes, commas or line ends stands in "
                                         "quotes, and a quote in it is doubled",
                                         name, rows.number + 1, csv_strerror(csv_error(&parser.it))));
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

}  // namespace kinora::core
