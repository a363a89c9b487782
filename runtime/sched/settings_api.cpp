// heddle/settings.h: the table as text.
#include "heddle/settings.h"
#include "runtime/base/settings.h"

namespace heddle {

std::vector<setting_info> all_settings() {
  std::vector<setting_info> out;
  for (const core::setting_row& row : core::setting_rows())
    out.push_back({.name = std::string(row.name),
                   .kind = std::string(core::to_string(row.kind)),
                   .value = core::value_text(row, row.default_value),
                   .default_kernel = core::value_text(row, row.kernel_default),
                   .range = core::range_text(row),
                   .unit = std::string(row.unit),
                   .when = std::string(core::to_string(row.when)),
                   .meaning = std::string(row.meaning)});
  return out;
}

}  // namespace heddle
