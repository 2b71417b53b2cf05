//! `strftime` in UTC for the dates that chat templates put into system prompts.

use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// `time` by the codes of C's `strftime` in the C locale; a code without a meaning here stands for itself.
pub fn strftime(format: &str, time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    let (year, month, day) = civil(days);
    let weekday = (days + 4) % 7;
    let day_of_year = days - days_before(year) + 1;
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        // `%-d` is `%d` without padding.
        let code = chars.next();
        let (pad, code) = if code == Some('-') { (false, chars.next()) } else { (true, code) };
        let number = |n: u64, width: usize| if pad { format!("{n:0width$}") } else { n.to_string() };
        let text = match code {
            Some('Y') => year.to_string(),
            Some('y') => number(year % 100, 2),
            Some('m') => number(month, 2),
            Some('d') => number(day, 2),
            Some('e') => {
                if pad {
                    format!("{day:2}")
                } else {
                    day.to_string()
                }
            }
            Some('j') => number(day_of_year, 3),
            Some('H') => number(hour, 2),
            Some('I') => number((hour + 11) % 12 + 1, 2),
            Some('M') => number(minute, 2),
            Some('S') => number(second, 2),
            Some('p') => if hour < 12 { "AM" } else { "PM" }.to_owned(),
            Some('B') => MONTHS[month as usize - 1].to_owned(),
            Some('b' | 'h') => MONTHS[month as usize - 1][..3].to_owned(),
            Some('A') => DAYS[weekday as usize].to_owned(),
            Some('a') => DAYS[weekday as usize][..3].to_owned(),
            Some('w') => weekday.to_string(),
            Some('F') => format!("{year}-{month:02}-{day:02}"),
            Some('D') => format!("{month:02}/{day:02}/{:02}", year % 100),
            Some('T') => format!("{hour:02}:{minute:02}:{second:02}"),
            Some('R') => format!("{hour:02}:{minute:02}"),
            Some('s') => seconds.to_string(),
            Some('Z') => "UTC".to_owned(),
            Some('z') => "+0000".to_owned(),
            Some('n') => "\n".to_owned(),
            Some('t') => "\t".to_owned(),
            Some('%') => "%".to_owned(),
            Some(other) => format!("%{other}"),
            None => "%".to_owned(),
        };
        out.push_str(&text);
    }
    out
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400)
}

/// From 1970-01-01 to the first day of `year`.
fn days_before(year: u64) -> u64 {
    let leaps = |y: u64| y / 4 - y / 100 + y / 400;
    (year - 1970) * 365 + leaps(year - 1) - leaps(1969)
}

/// Year, month and day of a day since 1970-01-01.
fn civil(days: u64) -> (u64, u64, u64) {
    let mut year = 1970 + days / 366;
    while days_before(year + 1) <= days {
        year += 1;
    }
    let mut day = days - days_before(year);
    let mut month = 1;
    for length in [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    (year, month, day + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Expected values from Python's `datetime`.
    #[test]
    fn agrees_with_python() {
        let all = "%Y-%m-%d %H:%M:%S %j %A %a %B %b %I %p %y %-d %F %T %%";
        for (seconds, want) in [
            (0, "1970-01-01 00:00:00 001 Thursday Thu January Jan 12 AM 70 1 1970-01-01 00:00:00 %"),
            (951_782_399, "2000-02-28 23:59:59 059 Monday Mon February Feb 11 PM 00 28 2000-02-28 23:59:59 %"),
            (1_709_210_096, "2024-02-29 12:34:56 060 Thursday Thu February Feb 12 PM 24 29 2024-02-29 12:34:56 %"),
            (4_102_444_799, "2099-12-31 23:59:59 365 Thursday Thu December Dec 11 PM 99 31 2099-12-31 23:59:59 %"),
        ] {
            assert_eq!(strftime(all, UNIX_EPOCH + Duration::from_secs(seconds)), want);
        }
    }
}
