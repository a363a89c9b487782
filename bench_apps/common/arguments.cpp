#include "bench_apps/common/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>

#include "bench_apps/common/errors.h"
#include "bench_apps/common/suggest.h"

namespace heddle::bench {
namespace {

std::vector<std::string> split_names(const std::string& names) { return CLI::detail::split(names, ','); }

bool matches(const std::string& arg, const std::string& name) {
  if (arg == name) return true;
  const bool is_long = name.starts_with("--");
  return arg.starts_with(is_long ? name + "=" : name) && (is_long || !arg.starts_with("--"));
}

// `-r -5` is a refused value and not a missing one, so the number must reach -r: glued on, as getopt allows.
std::vector<std::string> glue_negative_numbers(const std::vector<std::string>& args) {
  std::vector<std::string> out;
  for (const std::string& arg : args) {
    const bool number = arg.size() > 1 && arg[0] == '-' && (arg[1] >= '0' && arg[1] <= '9');
    if (number && !out.empty() && out.back().size() > 1 && out.back()[0] == '-' &&
        out.back().find('=') == std::string::npos)
      out.back() += (out.back()[1] == '-' ? "=" : "") + arg;
    else
      out.push_back(arg);
  }
  return out;
}

// --help as the rest of the program writes: defaults behind the sentence, one blank line between groups.
class help_layout final : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    return option->get_type_name().empty() ? "" : " " + option->get_type_name();
  }
  std::string make_option_desc(const CLI::Option* option) const override {
    const std::string value = option->get_default_str();
    return option->get_description() + (value.empty() ? "" : " [" + value + "]");
  }
  std::string make_usage(const CLI::App*, std::string name) const override {
    return "\nusage: " + name + " [OPTIONS]\n\n";
  }
  std::string make_group(std::string group, bool positional, std::vector<const CLI::Option*> options) const override {
    return CLI::Formatter::make_group(std::move(group), positional, std::move(options)).substr(1);
  }
};

}  // namespace

std::function<bool(const std::string&)> in_range(int64_t& target, count_range range) {
  return [&target, range](const std::string& text) {
    const auto n = parse_count(text);
    if (!n || *n < range.min || *n > range.max) return false;
    target = *n;
    return true;
  };
}

std::function<bool(const std::string&)> in_range(nanos& target, duration_range range) {
  return [&target, range](const std::string& text) {
    const auto d = parse_duration(text, range.bare);
    if (!d || *d < range.min || *d > range.max) return false;
    target = *d;
    return true;
  };
}

std::string describe(count_range range) { return fmt::format("a whole number from {} to {}", range.min, range.max); }

std::string describe(duration_range range) {
  return fmt::format("a duration from {} to {}", show_duration(range.min), show_duration(range.max));
}

arguments::arguments(std::string_view name, std::string_view summary)
    : cli_(std::make_unique<CLI::App>(std::string(summary), fmt::format("heddle{}{}", name.empty() ? "" : " ", name))) {
  cli_->formatter(std::make_shared<help_layout>());
  cli_->get_formatter()->column_width(36);
  cli_->set_help_flag();  // comes last, in parse()
}

arguments::~arguments() = default;

CLI::Option* arguments::finish(CLI::Option* option, const std::string& type, const std::string& shown_default) {
  option->group(group_)->type_name(type);
  if (!shown_default.empty()) option->default_str(shown_default);
  return option;
}

void arguments::value(const std::string& names, const std::string& shown_default,
                      std::function<bool(const std::string&)> accept, const std::string& range, const std::string& type,
                      const std::string& help) {
  auto* option = cli_->add_option_function<std::string>(
      names,
      [this, names, range, accept = std::move(accept)](const std::string& text) {
        if (!accept(text)) refuse(names, text, range);
      },
      help);
  finish(option, type, shown_default)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

void arguments::count(const std::string& names, int64_t& target, count_range range, const std::string& help) {
  value(names, std::to_string(target), in_range(target, range), describe(range), "N", help);
}

void arguments::real(const std::string& names, double& target, double min, double max, const std::string& help) {
  auto accept = [&target, min, max](const std::string& text) {
    const auto n = parse_real(text);
    if (!n || *n < min || *n > max) return false;
    target = *n;
    return true;
  };
  value(names, show_number(target), accept, fmt::format("a number from {} to {}", show_number(min), show_number(max)),
        "X", help);
}

void arguments::duration(const std::string& names, nanos& target, duration_range range, const std::string& help) {
  value(names, show_duration(target), in_range(target, range), describe(range), "DURATION",
        fmt::format("{} (bare number: {})", help, show_duration(range.bare).substr(1)));
}

void arguments::size(const std::string& names, int64_t& target, count_range bytes, const std::string& help) {
  auto accept = [&target, bytes](const std::string& text) {
    const auto n = parse_size(text, 1);
    if (!n || *n < bytes.min || *n > bytes.max) return false;
    target = *n;
    return true;
  };
  value(names, show_size(target), accept,
        fmt::format("a size from {} to {}", show_size(bytes.min), show_size(bytes.max)), "SIZE",
        help + " (bare number: bytes)");
}

void arguments::choice(const std::string& names, std::string& target, std::vector<std::string> allowed,
                       const std::string& help) {
  const std::string range = fmt::format("one of {}", fmt::join(allowed, ", "));
  const std::string type = fmt::format("{}", fmt::join(allowed, "|"));
  auto accept = [&target, allowed = std::move(allowed)](const std::string& text) {
    if (std::ranges::find(allowed, text) == allowed.end()) return false;
    target = text;
    return true;
  };
  value(names, target, accept, range, type, help);
}

void arguments::text(const std::string& names, std::string& target, const std::string& help) {
  auto accept = [&target](const std::string& text) {
    target = text;
    return true;
  };
  value(names, target, accept, "a text", "TEXT", help);
}

void arguments::texts(const std::string& names, std::vector<std::string>& target, const std::string& help) {
  auto* option = cli_->add_option(names, target, help);
  finish(option, "TEXT", "")->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void arguments::flag(const std::string& names, bool& target, const std::string& help) {
  cli_->add_flag(names, target, help)->group(group_);
}

void arguments::footer(const std::string& text) { cli_->footer(text); }
void arguments::leave_rest() { cli_->prefix_command(); }
std::vector<std::string> arguments::rest() const { return cli_->remaining(); }
size_t arguments::times_given(const std::string& name) const { return cli_->count(name); }
std::string arguments::help() const { return cli_->help(); }

void arguments::config_file(const std::string& name, const std::string& help) {
  cli_->set_config(name, "", help)->group(group_)->type_name("FILE");
  cli_->allow_config_extras(CLI::config_extras_mode::error);
}

bool arguments::parse(const std::vector<std::string>& args) {
  // Some modelled tools use -h for something else.
  if (cli_->get_help_ptr() == nullptr && cli_->get_option_no_throw("--help") == nullptr)
    cli_->set_help_flag(cli_->get_option_no_throw("-h") == nullptr ? "-h,--help" : "--help", "this text")
        ->group(group_);
  args_ = glue_negative_numbers(args);
  std::vector<std::string> reversed(args_.rbegin(), args_.rend());  // CLI11 takes its words from the back
  try {
    cli_->parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    std::fputs(cli_->help().c_str(), stdout);
    return false;
  } catch (const CLI::ExtrasError&) {
    const std::string word = cli_->remaining().front();
    const bool option = word.starts_with("-");
    throw usage_error(fmt::format("'{}' is {}{} (see {} --help)", word,
                                  option ? "an unknown option" : "one word too many",
                                  option ? near_text(word.substr(0, word.find('=')), names()) : "", cli_->get_name()));
  } catch (const CLI::ParseError& e) {
    throw usage_error(fmt::format("{} (see {} --help)", e.what(), cli_->get_name()));
  }
  return true;
}

std::vector<std::string> arguments::names() const {
  std::vector<std::string> all;
  for (const CLI::Option* option : cli_->get_options()) {
    for (const std::string& name : option->get_lnames()) all.push_back("--" + name);
    for (const std::string& name : option->get_snames()) all.push_back("-" + name);
  }
  return all;
}

void arguments::refuse(const std::string& names, const std::string& value, const std::string& range) const {
  throw usage_error(fmt::format("{}: '{}' is not {}", spelling(names), value, range));
}

// The way the user wrote the option, so that the message names what stands on their screen.
std::string arguments::spelling(const std::string& names) const {
  const auto all = split_names(names);
  for (const std::string& arg : args_)
    for (const std::string& name : all)
      if (name.starts_with("-") && matches(arg, name)) return name;
  return all.front();
}

}  // namespace heddle::bench
