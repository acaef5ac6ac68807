"""The last Schedules of the sample supplier agreement, which describe daily operation."""

# place, cold rooms, pallets, working hours, what is special
SITES = [
    ("Rotterdam Waalhaven", 14, "21,400", "around the clock", "The control room for all sites is here. Two lines enter the building from different streets."),
    ("Rotterdam Maasvlakte", 9, "16,800", "around the clock", "Access needs a port pass, which the Supplier\u2019s personnel obtain themselves and in time."),
    ("Antwerp", 8, "12,900", "5:00 to 23:00", "Labels and declarations are printed in Dutch and French. The customs desk works until 21:00."),
    ("Venlo", 6, "9,700", "4:00 to 22:00", "Flowers are handled here besides food; their rooms are kept between two and eight degrees."),
    ("Utrecht", 3, "3,200", "6:00 to 20:00", "The head office of the Customer and the training room for key users are in this building."),
    ("Groningen", 4, "5,100", "6:00 to 22:00", "The line has a single path. Hand scanners must be able to work for two hours without it."),
    ("Zeebrugge", 7, "11,300", "around the clock", "Fish is auctioned from the hall. Between 4:00 and 7:00 no maintenance of any kind is allowed."),
    ("Duisburg", 5, "8,600", "5:00 to 23:00", "Works council agreements limit the evaluation of working times. Reports show groups of at least six persons."),
    ("Hamburg", 6, "9,900", "5:00 to 23:00", "A second operator shares the building. Cabinets are locked, and keys are signed for."),
    ("Lille", 4, "5,800", "6:00 to 22:00", "User interfaces and the service desk are needed in French from M10 on."),
    ("Esbjerg", 3, "3,900", "6:00 to 20:00", "Sensors are exposed to salt. They are inspected twice as often as elsewhere."),
]

REPORTS = [
    ("Service report", "monthly, by the fifth Business Day", "measured service levels, credits, incidents, changes, open risks"),
    ("Temperature report", "daily, by 7:00", "gaps in readings, alarms, time until each alarm was confirmed"),
    ("Security report", "quarterly", "weaknesses found and removed, patches, exercises, reviews of access"),
    ("Capacity report", "quarterly", "use of storage, lines and licences, with a forecast for twelve months"),
    ("Charges report", "monthly, with the invoice", "quantities for each item of the catalogue and for each site"),
    ("Subcontractor report", "half-yearly", "assessments, incidents and planned replacements"),
    ("Energy report", "yearly", "energy used, its sources, and progress towards the agreed targets"),
    ("Continuity report", "after each rehearsal", "course, times reached, deviations and improvements"),
]

EXIT = [
    "This Schedule describes how the Services are handed back to the Customer or over to a successor. The Supplier keeps a detailed version, with names and systems, and brings it up to date each year before the anniversary of the Effective Date.",
    ("heading", "Preparation"),
    "Within ten Business Days after a notice of termination the parties name exit managers. The Supplier\u2019s exit manager has no other tasks during the exit period.",
    "The Supplier hands over an inventory of all systems, interfaces, data stores, licences, certificates and contracts that serve the Customer, with owners and dates of expiry.",
    "A successor receives answers to written questions within three Business Days, and may interview the Supplier\u2019s engineers for up to forty hours without charge. Trade secrets of the Supplier that are not needed for operation may be withheld.",
    ("heading", "Data"),
    "Exports contain all tables and files with a description of each field, the history of changes, and checksums. They are encrypted for the transport with a key that the Customer chooses.",
    "A trial export takes place at the latest sixty days before the planned handover. The Customer checks it within fifteen Business Days, and defects are removed before the final export.",
    "Readings of temperature sensors are exported without gaps and with the calibration records of each sensor, since food law requires them to be kept by the Customer.",
    ("heading", "Handover"),
    "Sites change over one after another, in the reverse order of the transition, unless the exit managers agree otherwise. No site changes over between the first of November and the end of January.",
    "During two weeks after each handover the Supplier keeps its own systems for the site ready, so that the site can go back to them within four hours.",
    "The exit is complete when the Customer confirms it in writing. If neither a confirmation nor a list of open points arrives within twenty Business Days after the last handover, the exit counts as complete.",
]

OPERATION = [
    ("heading", "Reporting an Incident"),
    "Incidents are reported by telephone when they stop work, and otherwise by the portal. The service desk gives each a number and a class, repeats both to the caller, and records the time.",
    "The caller decides on the class. If the Supplier holds another class to be right, it says so, but treats the Incident by the caller\u2019s class until the contract managers have decided.",
    "An Incident of the highest class exists if goods are in danger, if a site cannot load or unload, or if more than fifty users cannot work. Its Response Time and Restoration Time run around the clock.",
    ("heading", "Working on an Incident"),
    "An incident manager leads the work, speaks with the Customer\u2019s control room every thirty minutes, and decides about workarounds after hearing the site concerned.",
    "If half of the Restoration Time has passed without a workaround, then the Supplier\u2019s head of operations is informed; at three quarters, the management board.",
    "A workaround that leads to more than one hour of additional work a day at a site is not a restoration.",
    ("heading", "Closing and learning"),
    "An Incident is closed by the person who reported it. If there is no answer to two enquiries on different Business Days, then the service desk closes it, and it may be reopened within ten Business Days.",
    "For each Incident of the highest class the Supplier writes a review within ten Business Days. It names the causes, what was done and when, what helped, what hindered, and which improvements follow by which date. It names no culprits.",
    "Causes that may lead to further Incidents are recorded as problems. The contract managers look at the list of problems each month and set their order.",
    ("heading", "Routine work"),
    "Certificates, licences and domain names are renewed at least twenty days before they expire. A calendar of these dates is visible to the Customer.",
    "The Supplier tests each month, at one site after another, whether the alarm for a failed cooling unit reaches the control room by both paths.",
    "Planned maintenance is announced with its purpose, its duration, the Services concerned, and the way back. The Customer may postpone it once, for good reason, by up to three weeks.",
]

USE = [
    "The Customer\u2019s users may use the Services for the Customer\u2019s business and for nothing else. They may not let others use their accounts.",
    "Users do not test the security of the Services, do not evade limits, and do not enter code or data of which they know that it is harmful. Tests that the Customer orders from experts are agreed with the Supplier ten Business Days ahead.",
    "Automatic access takes place over the interfaces meant for it, with the accounts and within the rates stated in the Order. If a rate is exceeded, the Supplier slows the account down and informs the technical contact.",
    "The Supplier may suspend an account if it endangers the Services, after informing the technical contact, or at the same time where danger is imminent. It suspends no more than is needed and lifts the suspension when the cause is gone.",
    "Content that the Customer\u2019s clients enter in the client portal is subject to the same rules. The Customer lays them on its clients, and the Supplier shows them at the first sign-in.",
    "The Supplier does not watch the conduct of single users beyond what Schedule 7 requires, and does not report on it, except to explain an Incident or on the demand of an authority.",
]

CONDUCT = [
    ("heading", "People"),
    "Wages and working hours are in keeping with the law and with the collective agreements that apply. Nobody works because of threat, debt or withheld papers, and nobody under the age of fifteen works at all.",
    "Nobody is treated worse because of origin, sex, belief, disability, age or orientation. Workers may form unions and bargain together, and speak up without having to fear for their position.",
    "Workplaces are safe. Accidents are recorded, examined and reported to the Customer if they happened on its sites.",
    ("heading", "Business"),
    "Neither the Supplier nor anybody who acts for it offers, pays or accepts anything in order to obtain an improper advantage. Gifts and invitations are modest, open, and never cash.",
    "Conflicts of interest are disclosed. A person with a private interest in a decision takes no part in it.",
    "Prices are formed independently of competitors. Information about competitors is gathered only in lawful ways.",
    ("heading", "Environment"),
    "Electricity for computing centres comes from renewable sources for at least ninety per cent of consumption, shown by recognised certificates. Waste heat is used where a taker can be found at reasonable cost.",
    "Equipment is used for as long as it is safe and economical to do so, then repaired or sold for further use, and recycled only as the last step.",
    ("heading", "Application"),
    "The Supplier passes these rules on to its subcontractors and verifies their observance in the assessments under Schedule 7. It tells the Customer of serious breaches within ten Business Days after learning of them.",
    "The Customer may ask for evidence once a year. Where shortcomings are found, the Supplier presents a plan within twenty Business Days and reports on its progress until they are removed.",
]


CONTACTS = [
    ("Contract manager", "Customer", "contract matters, monthly meeting"),
    ("Technical contact", "Customer", "accounts, interfaces, maintenance"),
    ("Control room", "Customer", "incidents, around the clock"),
    ("Customs desk", "Customer", "declarations, until 21:00"),
    ("Finance director", "Customer", "warnings under clauses 10 and 23"),
    ("Legal department", "Customer", "notices under clause 25"),
    ("Contract manager", "Supplier", "contract matters, monthly meeting"),
    ("Service desk", "Supplier", "reports and questions, around the clock"),
    ("Head of operations", "Supplier", "first level of escalation"),
    ("Security officer", "Supplier", "weaknesses, security incidents"),
    ("Data protection officer", "Supplier", "questions under Schedule 5"),
    ("Management board", "Supplier", "second level of escalation"),
]

DATA_SETS = [
    ("Stock and movements", "quantities, places, batches, owners", "internal"),
    ("Temperature readings", "sensor, time, value, calibration", "internal"),
    ("Orders and shipments", "sender, recipient, goods, dates", "confidential"),
    ("Customs data", "declarations, permits, duties", "confidential"),
    ("Tariffs and invoices", "prices, quantities, amounts", "confidential"),
    ("Users and roles", "name, contact details, roles, sign-ins", "personal"),
    ("Drivers and trips", "name, working times, positions of trucks", "personal"),
    ("Contacts at clients", "name, business contact details", "personal"),
    ("Archive documents", "delivery notes, certificates, letters", "by document"),
]


def contacts():
    return [
        "The following offices are the points of contact. Names and numbers are kept in the portal, where each party enters changes by itself.",
        ("table", [("Office", "Party", "For")] + CONTACTS),
        "A person who is asked to decide something is given the facts in writing, the choices, and the time by which the decision is needed. A decision that is late moves the dates that depend on it.",
        "Escalation is no reproach. Whoever believes that an Incident or a dispute needs the attention of the next level says so to the contact of the same level on the other side, and then escalates.",
        "Each office has a deputy. Both parties test the list twice a year by calling every number outside of Business Hours.",
    ]


def data_sets():
    return [
        "Customer Data are divided into the following sets. The class decides which of the controls in Schedule 7 apply in their stricter form.",
        ("table", [("Set", "Contents", "Class")] + DATA_SETS),
        "The Customer names an owner for each set. The owner decides who may read and change it, and approves interfaces through which it leaves the Services.",
        "New sets are added by a change under clause 13. Until a class has been assigned, a new set is treated as confidential.",
        "Where sets are joined for a report, the result has the strictest class of its parts, unless persons and clients can no longer be recognised in it.",
    ]


def sites():
    blocks = [
        "The Services are used at the following sites. Working hours are those in which goods are moved; cooling and its monitoring never rest.",
        ("table", [("Site", "Rooms and pallets", "Working hours")] + [
            (place, f"{rooms} rooms, {pallets} pallets", hours) for place, rooms, pallets, hours, _ in SITES]),
    ]
    for place, rooms, pallets, hours, special in SITES:
        blocks.append(("heading", place))
        blocks.append(
            f"The site has {rooms} cold rooms for {pallets} pallets and works {hours if hours[0] == 'a' else 'from ' + hours}. {special}")
    blocks.append("The Customer may close a site or move it with four months\u2019 notice. Charges that depend on the number of sites are adjusted from the following month. New sites are connected within ten weeks after the Order.")
    return blocks


def reports():
    return [
        "The Supplier delivers the following reports by the portal, in a format in which the figures can be processed further.",
        ("table", [("Report", "When", "Contents")] + REPORTS),
        "Figures are shown together with those of the preceding twelve months. A figure that was corrected later is marked, with the reason.",
        "If a report is late by more than five Business Days, or so incomplete that service levels cannot be judged, then the levels that it should show count as missed for the period.",
        "The Customer may ask for single evaluations beyond these reports. Up to two days of work in a quarter are free of charge.",
    ]


ANNEXES = [
    ("Sites", sites), ("Reports", reports), ("Operating procedures", lambda: OPERATION), ("Acceptable use", lambda: USE),
    ("Code of conduct", lambda: CONDUCT), ("Exit plan", lambda: EXIT), ("Contacts and escalation", contacts),
    ("Sets of data", data_sets),
]
