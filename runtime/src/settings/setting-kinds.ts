/** The kinds of values that settings have. Each parses one text and says what it accepts. */
import { isIP } from "node:net";
import { type LogFilter, parseLogFilter, renderLogFilter } from "../log/log-filter.ts";

/** A kind of setting with values of type `T`. */
export interface SettingKind<T> {
  /** Stands for the value in help texts: `N`, `HOST:PORT`. Empty for a switch, whose flag takes no value. */
  readonly placeholder: string;
  /** The accepted texts, to follow "is not" in a message: `a whole number from 1 to 10`. */
  readonly accepted: string;
  /** Returns the value, or undefined if the text is not of this kind. */
  readonly parse: (text: string) => T | undefined;
  /** Describes the problem of a text that `parse` rejects; absent: `accepted` is enough. */
  readonly explain?: (text: string) => string;
  /**
   * Renders the value as a user would type it; absent: `String(value)`. A method, so that kinds of all values are one
   * type.
   */
  render?(value: T): string;
}

/** Accepts any text that is not empty. */
export function text(placeholder: string, accepted: string): SettingKind<string> {
  return { placeholder, accepted, parse: (value) => (value === "" ? undefined : value) };
}

/** Accepts a whole number between `min` and `max`, inclusive. */
export function integer(min: number, max: number): SettingKind<number> {
  return {
    placeholder: "N",
    accepted: `a whole number from ${min} to ${max}`,
    parse(value) {
      const number = Number(value);
      return /^-?\d+$/.test(value) && number >= min && number <= max ? number : undefined;
    },
  };
}

/** Accepts a decimal number between `min` and `max`, inclusive. */
export function number(min: number, max: number): SettingKind<number> {
  return {
    placeholder: "N",
    accepted: `a number from ${min} to ${max}`,
    parse(value) {
      const parsed = Number(value);
      return /^\d+(?:\.\d+)?$/.test(value) && parsed >= min && parsed <= max ? parsed : undefined;
    },
  };
}

/** Accepts true or false. On the command line the flag alone means true. */
export const toggle: SettingKind<boolean> = {
  placeholder: "",
  accepted: "true or false",
  parse(value) {
    const lower = value.toLowerCase();
    if (lower === "true" || lower === "1") return true;
    return lower === "false" || lower === "0" ? false : undefined;
  },
};

/** Accepts one of `words`. */
export function oneOf<const T extends string>(...words: readonly T[]): SettingKind<T> {
  return {
    placeholder: words.join("|"),
    accepted: `one of ${words.join(", ")}`,
    parse: (value) => words.find((word) => word === value),
  };
}

const msOfUnit: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 };

/** Accepts a duration with a unit; its value is in milliseconds, between `minMs` and `maxMs`, inclusive. */
export function duration(minMs: number, maxMs: number): SettingKind<number> {
  return {
    placeholder: "DURATION",
    accepted: `a duration from ${renderDuration(minMs)} to ${renderDuration(maxMs)}, such as 500ms, 10s, 5m or 1h`,
    parse(value) {
      const [, amount, unit = ""] = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(value) ?? [];
      const ms = Number(amount) * (msOfUnit[unit] ?? Number.NaN);
      return ms >= minMs && ms <= maxMs ? ms : undefined;
    },
    render: renderDuration,
  };
}

function renderDuration(ms: number): string {
  const unit = ["h", "m", "s"].find((name) => ms > 0 && ms % (msOfUnit[name] ?? 1) === 0) ?? "ms";
  return `${ms / (msOfUnit[unit] ?? 1)}${unit}`;
}

/** A host and port to listen on or to connect to. */
export interface SocketAddress {
  /** A host name or IP address, IPv6 without brackets. */
  readonly host: string;
  /** The port; 0 for one that the system chooses. */
  readonly port: number;
}

/** Renders `host:port`, with brackets around an IPv6 address. */
export function renderSocketAddress({ host, port }: SocketAddress): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Accepts `HOST:PORT`, `[IPV6]:PORT`, or `:PORT` for every address of the machine. */
export const socketAddress: SettingKind<SocketAddress> = {
  placeholder: "HOST:PORT",
  accepted: "HOST:PORT, [IPV6]:PORT or :PORT with a port from 0 to 65535",
  parse(value) {
    const [, ipv6, name = "", port] = /^(?:\[([0-9A-Fa-f:.]+)\]|([^:\s/]*)):(\d{1,5})$/.exec(value) ?? [];
    if (port === undefined || Number(port) > 65_535) return undefined;
    return { host: ipv6 ?? (name === "" ? "::" : name), port: Number(port) };
  },
  render: renderSocketAddress,
};

/** Accepts an IP address without a port; IPv6 without brackets. */
export const ipAddress: SettingKind<string> = {
  placeholder: "IP",
  accepted: "an IP address such as 127.0.0.1 or ::1",
  parse: (value) => (isIP(value) === 0 ? undefined : value),
};

/** A Unix socket to listen on. */
export interface UnixAddress {
  /** The path of its file. */
  readonly path: string;
}

/** Accepts `unix:/path`, or what `socketAddress` accepts. */
export const listenAddress: SettingKind<SocketAddress | UnixAddress> = {
  placeholder: "HOST:PORT|unix:PATH",
  accepted: `${socketAddress.accepted}, or unix:/path of a socket`,
  parse: (value) =>
    /^unix:\/[^\0]+$/.test(value) ? { path: value.slice("unix:".length) } : socketAddress.parse(value),
  render: renderListenAddress,
};

/** As `listenAddress`, but `:PORT` means 127.0.0.1: any other interface must be given explicitly. */
export const loopbackListenAddress: SettingKind<SocketAddress | UnixAddress> = {
  ...listenAddress,
  parse: (value) => listenAddress.parse(value.startsWith(":") ? `127.0.0.1${value}` : value),
};

/** Renders an address in a form that `listenAddress` accepts. */
export function renderListenAddress(address: SocketAddress | UnixAddress): string {
  return "path" in address ? `unix:${address.path}` : renderSocketAddress(address);
}

/** Accepts IP addresses with ports, separated by commas: `127.0.0.1:8081,[::1]:8081`. */
export const ipSocketAddresses: SettingKind<readonly SocketAddress[]> = {
  placeholder: "IP:PORT,…",
  accepted: "IP:PORT or [IPV6]:PORT, separated by commas",
  parse(value) {
    const addresses = value.split(",").map((item) => socketAddress.parse(item.trim()));
    const isValid = (address: SocketAddress | undefined): address is SocketAddress =>
      address !== undefined && isIP(address.host) !== 0 && address.port > 0;
    return addresses.every(isValid) ? addresses : undefined;
  },
  render: (addresses) => addresses.map(renderSocketAddress).join(","),
};

/** Renders a value of a kind as a user would type it. */
export function renderSetting<T>(kind: SettingKind<T>, value: T): string {
  return kind.render === undefined ? String(value) : kind.render(value);
}

/** Accepts a log filter whose directives name one of `modules` or a parent. */
export function logFilter(modules: readonly string[]): SettingKind<LogFilter> {
  const read = (value: string) => parseLogFilter(value, modules);
  return {
    placeholder: "FILTER",
    accepted: "a log filter such as info or info,proxy::config=debug",
    parse(value) {
      const filter = read(value);
      return filter.ok ? filter.value : undefined;
    },
    explain(value) {
      const filter = read(value);
      return filter.ok ? "" : filter.problems.map(({ message }) => message).join("; ");
    },
    render: renderLogFilter,
  };
}

/** Makes a setting optional: its value is `undefined` if it is not set. */
export function optional<T>(kind: SettingKind<T>): SettingKind<T | undefined> & { readonly isOptional: true } {
  return { ...kind, isOptional: true };
}

/** Accepts `off` as well, with the value `"off"`. */
export function orOff<T>(kind: SettingKind<T>): SettingKind<T | "off"> {
  return {
    placeholder: `${kind.placeholder}|off`,
    accepted: `${kind.accepted}, or off`,
    parse: (value) => (value === "off" ? "off" : kind.parse(value)),
    render: (value) => (value === "off" ? "off" : renderSetting(kind, value)),
  };
}
